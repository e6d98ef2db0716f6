//! `cuesta.toml` with one tier more, or one less. All other lines stay as the user wrote them.

use crate::messages::failure::Failure;
use cuesta_sharedfs::{LowerTier, Options};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// The text and what it says.
#[derive(Debug)]
pub struct Edited {
    pub text: String,
    pub options: Options,
}

impl Edited {
    /// Reads the configuration of a store.
    pub fn read(path: &Path) -> Result<Edited, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::on(path, error))?;
        let options = Options::parse(&text).map_err(|error| Failure::on(path, error))?;
        Ok(Edited { text, options })
    }

    /// The tier with that name or number.
    pub fn tier(&self, name: &str) -> Option<(String, LowerTier)> {
        let is_meant =
            |(known, tier): &(&String, &LowerTier)| *known == name || tier.number.to_string() == name;
        self.options.tier.iter().find(is_meant).map(|(name, tier)| (name.clone(), tier.clone()))
    }

    /// The number of the next tier. That of a tier that was taken out is not used again: a program that runs may still have mapped what
    /// lay there.
    pub fn next_number(&self) -> u8 {
        (self.options.tier.len() + self.options.removed_tiers.len()) as u8 + 1
    }

    /// The same with the line that says that a tier is being taken out.
    pub fn removing(&self, name: &str) -> Result<Edited, String> {
        let mut text = String::new();
        for line in self.text.lines() {
            text.push_str(line);
            text.push('\n');
            if header(line).is_some_and(|keys| keys == ["tier", name]) {
                text.push_str("removing = true\n");
            }
        }
        let mut options = self.options.clone();
        if let Some(tier) = options.tier.get_mut(name) {
            tier.removing = true;
        }
        checked(text, options, name)
    }

    /// The same without a tier, the number of which is kept.
    pub fn without(&self, name: &str) -> Result<Edited, String> {
        let mut options = self.options.clone();
        let Some(tier) = options.tier.remove(name) else { return Err(format!("there is no [tier.{name}]")) };
        options.removed_tiers.push(tier.number);
        let numbers = format!("removed_tiers = {:?}\n", options.removed_tiers);
        let rest = without_section(&self.text, name);
        let is_numbers = |line: &str| line.trim_start().starts_with("removed_tiers");
        let text = if rest.lines().any(is_numbers) {
            let lines = rest.lines().map(|line| match is_numbers(line) {
                true => numbers.clone(),
                false => format!("{line}\n"),
            });
            lines.collect()
        } else {
            // Behind the words at the head of the file, and before all sections.
            let head = rest.lines().take_while(|line| line.starts_with('#')).map(|line| line.len() + 1);
            let at = head.sum::<usize>().min(rest.len());
            let why = "# Numbers of tiers that were taken out. They are not used again.\n";
            format!("{}\n{why}{numbers}{}", &rest[..at], &rest[at..])
        };
        checked(text, options, name)
    }
}

fn checked(text: String, expected: Options, name: &str) -> Result<Edited, String> {
    match Options::parse(&text) {
        Ok(options) if options == expected => Ok(Edited { text, options }),
        _ => Err(format!("write it as a section [tier.{name}] of its own, as cuesta mkfs does")),
    }
}

/// The keys of a line that begins a section.
fn header(line: &str) -> Option<Vec<&str>> {
    let (inside, _) = line.trim().strip_prefix('[')?.split_once(']')?;
    Some(inside.split('.').map(|key| key.trim().trim_matches(['"', '\''])).collect())
}

/// The lines that are not of a tier's section. Comments right before a section belong to it.
fn without_section(text: &str, name: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut is_in_section = false;
    // Comments and empty lines, of which it is not clear yet to which section they belong.
    let mut pending: Vec<&str> = Vec::new();
    for line in text.lines() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            pending.push(line);
            continue;
        }
        let section = header(line);
        let of_this = match section {
            None => pending.len(),
            Some(_) => pending.iter().rposition(|line| line.trim().is_empty()).unwrap_or(0),
        };
        let mut of_next = pending.split_off(of_this);
        if !is_in_section {
            kept.append(&mut pending);
        }
        pending.clear();
        if let Some(keys) = section {
            is_in_section = matches!(keys[..], ["tier", of, ..] if of == name);
        }
        of_next.push(line);
        if !is_in_section {
            kept.append(&mut of_next);
        }
    }
    if !is_in_section {
        kept.append(&mut pending);
    }
    kept.iter().map(|line| format!("{line}\n")).collect()
}

/// Replaces the text of a file, so that a crash leaves one or the other.
pub fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let write = || -> std::io::Result<()> {
        let new = path.with_extension("toml.new");
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().map_err(|error| Failure::on(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::Durability;
    use cuesta_format::disk_profile::DiskProfile;
    use cuesta_format::emulation::Profile;
    use cuesta_sharedfs::configuration::{template, tiers_template};

    fn edited(text: &str) -> Edited {
        Edited { text: text.to_owned(), options: Options::parse(text).unwrap() }
    }

    fn tiers(names: &[&str]) -> String {
        let tier = |number| LowerTier {
            number,
            path: format!("/mnt/{number}").into(),
            bytes: 5 << 20,
            profile: DiskProfile::default(),
            removing: false,
        };
        let tiers = names.iter().zip(1..).map(|(name, number)| ((*name).to_owned(), tier(number)));
        tiers_template(&tiers.collect())
    }

    #[test]
    fn a_tier_leaves_its_number_and_all_other_lines() {
        let head = template(Profile::default(), Durability::default());
        let all = edited(&(head.clone() + &tiers(&["ssd", "hdd", "tape"])));
        let marked = all.removing("hdd").unwrap();
        assert!(marked.options.tier["hdd"].removing && !marked.options.tier["tape"].removing);
        let two = marked.without("hdd").unwrap();
        assert_eq!((two.options.removed_tiers.as_slice(), two.next_number()), (&[2][..], 4));
        assert!(!two.text.contains("/mnt/2"), "{}", two.text);
        let one = two.without("tape").unwrap();
        assert_eq!((one.options.removed_tiers.as_slice(), one.next_number()), (&[2, 3][..], 4));
        let none = one.without("ssd").unwrap();
        assert!(none.options.tier.is_empty());
        let left: Vec<&str> = none.text.lines().filter(|line| !line.contains("taken out")).collect();
        let left = left.join("\n").replace("\nremoved_tiers = [2, 3, 1]", "");
        assert_eq!(left.replace("\n\n\n", "\n\n").trim(), head.trim());
    }

    #[test]
    fn lines_that_users_write_stay_or_are_told() {
        let text = "kick_bytes = 5 # five\n[tier.\"a\"]\nnumber = 1\npath = \"/a\"\nbytes = 4096\n\
                    [tier.a.profile]\nread_ns = 5\n[users]\nconnections = 3\n# the end\n";
        let without = edited(text).without("a").unwrap();
        assert!(without.text.ends_with("kick_bytes = 5 # five\n[users]\nconnections = 3\n# the end\n"));
        let inline = "tier = { a = { number = 1, path = \"/a\", bytes = 4096 } }\n";
        assert!(edited(inline).without("a").unwrap_err().contains("[tier.a]"));
        assert!(edited(inline).removing("a").unwrap_err().contains("[tier.a]"));
    }
}
