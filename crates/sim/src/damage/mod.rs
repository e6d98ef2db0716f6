//! The damage campaign: the medium changes what a store keeps, and the store must heal it or tell of it.
//!
//! A campaign makes a store of medium `block` once, by the command as it is installed, and a second time as a plain folder: that is the model of its
//! content, which lies outside. Each trial copies the store, damages one of its files, and then does what an operator does.
//!
//! | step | what it shows |
//! |---|---|
//! | `fsck --dry-run` | whether a check tells of it |
//! | `run -- damage-campaign look` | what programs read: each file as in the model, as an error, or otherwise |
//! | `scrub`, `stop`, `fsck` | whether the rest is told |
//! | `fsck --repair`, and programs again | whether a store that did not open opens then |
//!
//! A trial fails if anything panics, is killed or hangs, if something reads otherwise than it was written and nothing told of it, or if the store
//! does not open. One seed repeats a campaign, and its number a trial.
//!
//! | file | idea |
//! |---|---|
//! | `harm` | what a medium does to a file |
//! | `part` | which files of a store it does it to |
//! | `content` | the content, and how it reads |
//! | `place` | stores to damage, and the command |
//! | `campaign` | a trial and its outcome |

mod campaign;
mod content;
mod harm;
mod part;
mod place;

pub use campaign::{Campaign, Failed, Outcome, Trial};
pub use content::{fill, look};
pub use harm::Kind;
pub use part::Part;
pub use place::Installed;
