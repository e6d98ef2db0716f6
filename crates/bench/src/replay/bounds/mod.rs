//! What policies are compared with: Belady's optimum, and the best placement that does not change.

pub mod fixed;
pub mod optimum;
