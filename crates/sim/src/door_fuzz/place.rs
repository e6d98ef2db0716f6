//! Where the player's memory lies: at fixed addresses, so that both players pass the same numbers.
//!
//! ```text
//! ROOM      1 MiB that can be written, then an unmapped page
//! READ_ONLY one page        CLOSED one page without access        UNMAPPED nothing
//! WORDS     a page for each argument that points to words         PATHS two pages for each that points to a path
//! WINDOW    1 MiB for what a sequence maps
//! ```

use std::fmt;

/// Memory for results and content.
pub const ROOM: u64 = 0x2000_0000;
/// Its length; the page behind it is unmapped.
pub const ROOM_BYTES: u64 = 1 << 20;
/// A page that cannot be written.
pub const READ_ONLY: u64 = 0x2020_0000;
/// A page that cannot be accessed.
pub const CLOSED: u64 = 0x2021_0000;
/// An address where nothing is mapped.
pub const UNMAPPED: u64 = 0x2022_0000;
/// Pages for arguments that point to words.
pub const WORDS: u64 = 0x2023_0000;
/// Pages for arguments that point to paths.
pub const PATHS: u64 = 0x2024_0000;
/// Where sequences map files.
pub const WINDOW: u64 = 0x2030_0000;
/// Its length.
pub const WINDOW_BYTES: u64 = 1 << 20;
/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Where the words of an argument lie.
#[must_use]
pub fn words(argument: usize) -> u64 {
    WORDS + argument as u64 * PAGE
}

/// Where the path of an argument lies.
#[must_use]
pub fn path(argument: usize) -> u64 {
    PATHS + argument as u64 * 2 * PAGE
}

const REGIONS: [(&str, u64, u64); 5] = [
    ("room", ROOM, ROOM_BYTES + PAGE),
    ("readonly", READ_ONLY, PAGE),
    ("closed", CLOSED, PAGE),
    ("unmapped", UNMAPPED, PAGE),
    ("window", WINDOW, WINDOW_BYTES),
];

/// A number as sequences print it: an address by its region, small ones in decimal.
pub struct Number(pub u64);

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, start, bytes) in REGIONS {
            if (start..start + bytes).contains(&self.0) {
                return write!(formatter, "{name}+{}", self.0 - start);
            }
        }
        match self.0 as i64 {
            small @ -100_000..100_000 => write!(formatter, "{small}"),
            _ => write!(formatter, "{:#x}", self.0),
        }
    }
}

/// The number behind its text.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        return u64::from_str_radix(hexadecimal, 16).ok();
    }
    if let Some((name, offset)) = text.split_once('+') {
        let (_, start, _) = REGIONS.iter().find(|(region, ..)| *region == name)?;
        return Some(start + offset.parse::<u64>().ok()?);
    }
    text.parse::<i64>().ok().map(|number| number as u64)
}
