//! Pauses between bursts, and how many processes or threads work at once.

use crate::figures::measure::Figure;
use std::time::Duration;

/// How long a log is given to drain between bursts; longer than SharedFS waits before it calls a log idle.
pub const SETTLE: Duration = Duration::from_millis(200);

/// How many work at once, one after the other, and the figure that tells how many times as much they do together as one does.
pub const CROWDS: [(u32, Option<Figure>); 4] =
    [(1, None), (2, Some(Figure::Two)), (4, Some(Figure::Four)), (8, Some(Figure::Eight))];
