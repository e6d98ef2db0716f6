//! Content moves because a command asks for it.
//!
//! | file | idea |
//! |---|---|
//! | `migrating` | what `cuesta migrate` asks |
//! | `walk` | the files below a directory, one after the other |
//! | `draining` | all content of a tier moves to others |
//! | `forgetting` | a tier that was drained leaves the store |

mod draining;
mod forgetting;
mod migrating;
mod walk;
