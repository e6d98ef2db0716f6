//! Replay: traces run through the daemon's policies of placement, in a simulated store of two tiers.
//!
//! | room or file | idea |
//! |---|---|
//! | `traces` | traces from files of several formats |
//! | `synthetic` | traces that the bench makes itself |
//! | `simulation` | the store, the mover, and what they do with a trace |
//! | `bounds` | Belady's optimum, and the best placement that does not change |
//! | `comparing` | sizes of the fast tier, policies and bounds side by side; the goals |
//! | `report`, `table`, `plot` | the findings: for programs, for people, as curves |
//! | `run` | the command |

mod bounds;
mod comparing;
mod plot;
mod report;
pub mod run;
mod simulation;
mod synthetic;
mod table;
mod traces;
