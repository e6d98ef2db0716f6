//! Sizes as people write and read them.

use std::str::FromStr;

/// A number of bytes from the command line: `67108864`, `64M`, `64MiB`, `4G`, `1T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let shift = match unit.trim().to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
            "" => 0,
            "k" => 10,
            "m" => 20,
            "g" => 30,
            "t" => 40,
            _ => return Err("write it like 512M or 4G".into()),
        };
        let number: u64 = number.parse().map_err(|_| "write it like 512M or 4G".to_owned())?;
        let bytes = number.checked_mul(1 << shift).ok_or("that is too much")?;
        Ok(Size(bytes))
    }
}

/// Bytes for people.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64M", 64 << 20),
            ("4g", 4 << 30),
            ("1TiB", 1 << 40),
            ("2 GB", 2 << 30),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "G", "12Q", "-1", "4.5G", "99999999999T"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_written() {
        assert_eq!(human(512), "512 B");
        assert_eq!(human(4 << 30), "4.0 GiB");
        assert_eq!(human(1536), "1.5 KiB");
    }
}
