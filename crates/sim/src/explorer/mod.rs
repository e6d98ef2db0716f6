//! The crash explorer: what may a store look like after a crash, and does it recover?
//!
//! | file | idea |
//! |---|---|
//! | `crashes/` | runs that are crashed: of calls, sessions, daemons and lanes |
//! | `coverage.rs` | counts of an exploration |
//! | `failure.rs` | a crash that the code under test does not survive as it must |
//! | `run.rs` | one run: the states at each event of a recording |
//! | `scenarios/` | the workloads that are crashed, and the campaign of all of them |
//! | `states/` | the states that a crash may leave, and putting them into files |
//! | `subject.rs` | the code under test as the explorer sees it |
//!
//! Input is what `media`'s recorder saw of a run: the files before it and every store, flush and
//! fence. Fault model:
//!
//! * *Power loss* at any instant: flushed and fenced stores are there; of every other store so far
//!   any subset may be, with program order kept within a cache line and words of eight bytes whole
//!   (`states/pending.rs`). It is enough to look just before each fence (everything since the last one may
//!   or may not have survived) and just after it. Files may lie on several disks, each of which takes stores at times of
//!   its own.
//! * *Process death* at any instant: every store up to it is there.
//! * Both of them between the steps in which a file is made or removed, and between the pages that the kernel writes of
//!   a file in mapped mode.
//! * Either of them again while the first is being recovered from.
//!
//! Each state is put into files (`states/stage.rs`), recovered by the code under test and judged against
//! how far the run had come: [`issued`] and [`acknowledged`] marks. States that recovery cannot tell apart are recovered
//! once ([`Memory`]).
//! Every fence that made something durable is a persist point, and so is each page the kernel wrote; one that was never crashed at is a
//! failure of the run itself ([`Coverage::complete`]).

mod coverage;
pub mod crashes;
mod failure;
mod run;
pub mod scenarios;
mod states;
mod subject;

pub use coverage::Coverage;
pub use crashes::{calls, deaths, lanes, lost_entries, optimistic, restarts, shipping, store, tiered};
pub use failure::{Failure, Moment};
pub use run::{explore, unaccounted};
pub use scenarios::{campaign, hand_overs, mapped, staged, tiers, workloads};
pub use states::choice::Bounds;
pub use states::memory::Memory;
pub use subject::{Progress, Subject, acknowledged, issued};
