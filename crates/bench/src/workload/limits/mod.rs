//! Programs that are compared with the hardware alone, or with the digest beside them.
//!
//! | file | idea |
//! |---|---|
//! | `bare.rs` | bare copies of the same bytes |
//! | `digest.rs` | how fast logs are digested |
//! | `limit.rs` | a few calls, then as many bare copies |
//! | `mixed.rs` | calls of all kinds at a steady rate |
//!
//! The goals are in `works`.

pub mod bare;
pub mod digest;
pub mod limit;
pub mod mixed;
