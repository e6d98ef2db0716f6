//! How long a soft limit may be exceeded, as people write it.

use std::str::FromStr;

const UNITS: [(char, u64); 4] = [('d', 24 * 60 * 60), ('h', 60 * 60), ('m', 60), ('s', 1)];

/// A time in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grace {
    pub(super) seconds: u64,
}

impl FromStr for Grace {
    type Err = String;

    fn from_str(text: &str) -> Result<Grace, String> {
        let wrong = || format!("{text:?} is no time such as 7d, 12h, 30m, 90s or 0");
        let unit = UNITS.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, *seconds)));
        let (number, seconds) = match unit {
            Some(found) => found,
            None if text == "0" => (text, 1),
            None => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let seconds = number.checked_mul(seconds).filter(|&seconds| i64::try_from(seconds).is_ok());
        Ok(Grace { seconds: seconds.ok_or_else(wrong)? })
    }
}

/// The largest two units of a time.
pub(super) fn human(seconds: u64) -> String {
    let mut rest = seconds;
    let mut shown = Vec::new();
    for (unit, size) in UNITS {
        let number = rest / size;
        rest %= size;
        if number > 0 || !shown.is_empty() {
            shown.push((number, unit));
        }
    }
    shown.truncate(2);
    let shown: String = shown
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect();
    if shown.is_empty() { "0s".into() } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        let read = |text: &str| text.parse::<Grace>().map(|grace| grace.seconds);
        assert_eq!(read("7d"), Ok(604_800));
        assert_eq!((read("12h"), read("30m"), read("90s"), read("0")), (Ok(43_200), Ok(1800), Ok(90), Ok(0)));
        for wrong in ["", "d", "7", "-1d", "7 d", "1w", "99999999999999999d"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let shown = [604_800, 90, 86_399, 3600, 0].map(human);
        assert_eq!(shown, ["7d", "1m30s", "23h59m", "1h", "0s"]);
    }
}
