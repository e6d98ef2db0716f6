//! Policy: when content of a tier moves down, and how much of the time the mover works at most.
//!
//! | level | begins above | the mover works |
//! |---|---|---|
//! | rest | | not at all |
//! | background | the low mark | a quarter of the time |
//! | foreground | the high mark | all the time, as far as programs bear it |
//! | emergency | the tier is full but for a thirtieth | all the time, and content need not be cold |
//!
//! The low mark follows what programs do (Ziggurat, §5): 50 % of the tier where they only write, so that there is room for what they
//! write next; 90 % where they only read. The high mark lies in the middle between it and the whole tier. A level ends 2 % of the tier below
//! the mark it began at, so that the mover neither begins nor ends all the time.

/// The least and the highest low mark, in thousandths of a tier.
const LOW_MARK_LEAST: u64 = 500;
const LOW_MARK_MOST: u64 = 900;
/// Above this the tier counts as full.
const FULL_MARK: u64 = 967;
/// A level ends so far below the mark it began at.
const ENDS_BELOW: u64 = 20;

/// How urgent it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// There is room.
    #[default]
    Rest,
    /// Cold content moves while there is time.
    Background,
    /// Cold content moves.
    Foreground,
    /// The coldest content moves, however warm it is.
    Emergency,
}

/// Where the low mark of a tier is, in thousandths, if programs read so many bytes and wrote so many lately.
pub fn low_mark(bytes_read: u64, bytes_written: u64) -> u64 {
    let (read, all) = (u128::from(bytes_read), u128::from(bytes_read) + u128::from(bytes_written));
    let share = |most: u64| (read * u128::from(most)).checked_div(all).unwrap_or(0) as u64;
    LOW_MARK_LEAST + share(LOW_MARK_MOST - LOW_MARK_LEAST)
}

impl Level {
    /// The level of a tier of `blocks` blocks that uses so many, and was at the level `self`.
    pub fn next(self, used: u64, blocks: u64, low_mark: u64) -> Level {
        let used = used.saturating_mul(1000).checked_div(blocks).unwrap_or(0);
        let marks = [
            (Level::Emergency, FULL_MARK),
            (Level::Foreground, u64::midpoint(low_mark, 1000)),
            (Level::Background, low_mark),
        ];
        let is_above = |&(level, mark): &(Level, u64)| {
            used > if level <= self { mark.saturating_sub(ENDS_BELOW) } else { mark }
        };
        marks.iter().find(|marked| is_above(marked)).map_or(Level::Rest, |&(level, _)| level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_low_mark_follows_what_programs_do() {
        assert_eq!(low_mark(0, 0), 500);
        assert_eq!(low_mark(0, 1 << 30), 500);
        assert_eq!(low_mark(1 << 30, 1 << 30), 700);
        assert_eq!(low_mark(1 << 30, 0), 900);
        assert_eq!(low_mark(u64::MAX, u64::MAX), 700);
    }

    #[test]
    fn a_level_ends_a_little_below_the_mark_it_began_at() {
        let at = |was: Level, used| was.next(used, 1000, 500);
        assert_eq!(at(Level::Rest, 500), Level::Rest);
        assert_eq!(at(Level::Rest, 501), Level::Background);
        assert_eq!(at(Level::Background, 490), Level::Background);
        assert_eq!(at(Level::Background, 480), Level::Rest);
        assert_eq!(at(Level::Background, 751), Level::Foreground);
        assert_eq!(at(Level::Foreground, 731), Level::Foreground);
        assert_eq!(at(Level::Foreground, 730), Level::Background);
        assert_eq!(at(Level::Rest, 1000), Level::Emergency);
        assert_eq!(at(Level::Emergency, 948), Level::Emergency);
        assert_eq!(at(Level::Emergency, 947), Level::Foreground);
        assert_eq!(Level::Rest.next(0, 0, 500), Level::Rest, "a tier without blocks");
    }
}
