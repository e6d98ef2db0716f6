//! Curves: time and bandwidth by the size of a request, by percentile, and by the number of threads.
//!
//! | file | idea |
//! |---|---|
//! | `chart.rs` | from outcomes to charts |
//! | `markdown.rs` | charts as tables of Markdown |
//! | `plot.rs` | charts as SVG |
//! | `report.rs` | everything that a run of curves found out |
//! | `run.rs` | a run of curves |
//! | `table.rs` | policy: which curves, points and peers there are |
//!
//! The works of the points are run as all others are; see `running`.

pub mod chart;
pub mod markdown;
pub mod plot;
pub mod report;
pub mod run;
pub mod table;
