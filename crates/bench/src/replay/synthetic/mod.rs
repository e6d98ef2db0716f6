//! Traces that the bench makes itself, from a seed.
//!
//! | file | idea |
//! |---|---|
//! | `zipf` | Zipf's law |
//! | `scenario` | a trace, and the tools to make one |
//! | `reads` | random reads of files that were written once, alone and beside scans |
//! | `programs` | as databases make them, and a day in ten minutes |
//! | `all` | their names |

pub mod all;
mod programs;
mod reads;
pub mod scenario;
mod zipf;
