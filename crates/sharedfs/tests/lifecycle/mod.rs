//! Sessions and their stores: attached, fenced, ended, recovered.
//!
//! | file | tests |
//! |---|---|
//! | `sessions` | requests of sessions, and daemons that follow each other |
//! | `endings` | crashes while a session ends |
//! | `recovery` | the store after a kill |
//! | `orphans` | inodes without a name |
//! | `calls` | callers' last calls |

mod calls;
mod endings;
mod orphans;
mod recovery;
mod sessions;
