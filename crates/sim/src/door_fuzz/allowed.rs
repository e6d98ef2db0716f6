//! The differences that stay. Each names its heading in `docs/door-differences.md`, which gives the reason.

use super::part::Part;
use super::place;
use super::player::LEFT;
use super::players::STORE_BYTES;

/// A difference that stays.
#[derive(Debug)]
pub struct Allowed {
    /// Its heading.
    pub heading: &'static str,
    /// Whether the rest of the sequence can still be compared.
    pub goes_on: bool,
    is: fn(&Part<'_>, &Part<'_>) -> bool,
}

/// All of them.
pub static ALLOWED: &[Allowed] = &[
    Allowed {
        heading: "Largest file",
        goes_on: false,
        is: |disk, _| {
            matches!(disk.answer(), "EFBIG" | "EINVAL" | "ENXIO" | "EOVERFLOW") && has_far_offset(disk)
        },
    },
    Allowed {
        heading: "Large extended attributes",
        goes_on: false,
        is: |disk, door| {
            disk.name().contains("setxattr") && (disk.answer(), door.answer()) == ("ENOSPC", "0")
        },
    },
    Allowed {
        heading: "Requests that only ext4 answers",
        goes_on: true,
        is: |disk, door| {
            disk.name() == "ioctl" && disk.argument(1) == "0x80087601" && door.answer() == "ENOTTY"
        },
    },
    Allowed {
        heading: "Times after a call that fails",
        goes_on: false,
        is: |disk, door| {
            let is_at_call = disk.answer().starts_with('E')
                && disk.answer() == door.answer()
                && differs_only_in(disk, door, |line| line.starts_with("  /") && line.contains(" now "));
            // A file that has a new name is looked at only in the end.
            let is_left = disk.call == LEFT
                && disk.before.contains("\n  = EFAULT\n")
                && disk.told.lines().map(without_time).eq(door.told.lines().map(without_time));
            is_at_call || is_left
        },
    },
    Allowed {
        heading: "Attributes of named pipes",
        goes_on: false,
        is: |disk, door| {
            let is_time = |line: &str| mode(line).is_some_and(is_pipe);
            // Of what is no pipe nothing is waiting.
            let is_open = |line: &str| line.starts_with("  descriptor") && !line.ends_with("waiting -1");
            let is_about = |line: &str| is_time(line) || disk.name().starts_with("open") && is_open(line);
            let is_left = disk.call == LEFT && without_pipes(disk.told) == without_pipes(door.told);
            is_left || disk.answer() == door.answer() && differs_only_in(disk, door, is_about)
        },
    },
    Allowed {
        heading: "Links in /proc",
        goes_on: true,
        is: |disk, door| {
            let is_link = disk.call.contains("'/proc/self/fd/");
            let is_mode = disk.answer() == door.answer()
                && differs_only_in(disk, door, |line| {
                    line.contains("stat 120") || line.contains("statx 120")
                });
            let is_right = disk.name() == "faccessat2" && door.answer() == "EACCES";
            let is_new = matches!((disk.answer(), door.answer()), ("ENOENT", "EXDEV" | "EROFS"));
            let is_answered = !disk.answer().starts_with('E') && !door.answer().starts_with('E');
            let is_name = disk.name().starts_with("readlink") && is_answered;
            is_link && (is_mode || is_right || is_new || is_name)
        },
    },
    Allowed {
        heading: "A mount of its own",
        goes_on: false,
        is: |disk, door| {
            let leaves = ["'/'", "'..'", "'../..'", "'$D"].iter().any(|path| disk.call.contains(path));
            door.answer() == "EXDEV"
                && leaves
                && (disk.name() == "openat2" || matches!(disk.answer(), "EBUSY" | "ENOTDIR" | "EPERM"))
                // Files there cannot be written while the fuzzer plays.
                || matches!(door.answer(), "EBUSY" | "EROFS") && disk.call.contains("'../..'")
        },
    },
    Allowed {
        heading: "Leases and notices",
        goes_on: false,
        is: |disk, door| {
            disk.name().starts_with("fcntl")
                && matches!(disk.argument(1), "1024" | "1026")
                && door.answer() == "EOPNOTSUPP"
        },
    },
    Allowed {
        heading: "The null device as a source",
        goes_on: false,
        is: |disk, door| disk.name() == "sendfile" && (disk.answer(), door.answer()) == ("EINVAL", "0"),
    },
    Allowed {
        heading: "Watches",
        goes_on: false,
        is: |disk, door| {
            disk.name() == "inotify_add_watch" && door.answer() == "ENOSYS" && !disk.answer().starts_with('E')
        },
    },
    Allowed {
        heading: "Positions in directories",
        goes_on: false,
        is: |disk, door| {
            let is_listed = disk.name().starts_with("getdents");
            let has_listed = disk.before.contains("\n# getdents");
            let is_small =
                is_listed && disk.answer() == "EINVAL" && matches!(door.answer(), "EFAULT" | "some");
            // Behind the last entry there is nothing to write to a bad address.
            let is_behind = is_listed
                && disk.before.contains("\n# lseek")
                && (disk.answer(), door.answer()) == ("EFAULT", "some");
            let is_moved = is_listed
                && disk.answer() == door.answer()
                && matches!(disk.answer(), "EINVAL" | "EFAULT")
                && differs_only_in(disk, door, |line| line.starts_with("  descriptor"));
            let is_position = |part: &Part<'_>| part.answer() == "a position";
            let is_lock =
                disk.name() == "fcntl" && matches!(disk.answer(), "0" | "EBADF") && door.answer() == "EINVAL";
            let is_from_end = is_lock && disk.argument(2).starts_with("[0x2");
            let is_sought = disk.name() == "lseek" && (is_position(disk) || is_position(door));
            // The kernel first adds the length to the position.
            let answers = (disk.answer(), door.answer());
            let is_read = disk.name().contains("read")
                && matches!(answers, ("EINVAL", "EISDIR" | "EOPNOTSUPP"))
                || disk.name() == "sendfile"
                    && matches!(answers, ("EOVERFLOW", "EINVAL") | ("EINVAL", "EBADF"))
                    && has_listed;
            is_small || is_behind || is_moved || is_from_end || is_sought || is_read
        },
    },
    Allowed {
        heading: "Without waiting for the disk",
        goes_on: false,
        is: |disk, door| {
            let opens = disk.name() == "openat2" && (disk.answer() == "EAGAIN" || door.answer() == "EAGAIN");
            // RWF_NOWAIT.
            let is_at_once = |word: &str| place::parse(word).is_some_and(|flags| flags & 8 != 0);
            let is_at_once = disk.call.split(' ').next_back().is_some_and(is_at_once);
            let writes = disk.name() == "pwritev2" && disk.answer() == "EOPNOTSUPP";
            let is_part = !disk.answer().starts_with('E') && !door.answer().starts_with('E');
            let reads = disk.name() == "preadv2" && (disk.answer() == "EAGAIN" || is_part);
            opens || is_at_once && (writes || reads)
        },
    },
    Allowed {
        heading: "Room",
        goes_on: false,
        is: |disk, door| {
            let asks_for_much = |word: &str| place::parse(word).is_some_and(|bytes| bytes >= STORE_BYTES);
            disk.name() == "fallocate"
                && (disk.answer(), door.answer()) == ("0", "ENOSPC")
                && asks_for_much(disk.argument(3))
        },
    },
    Allowed {
        heading: "Flags of an open tree",
        goes_on: false,
        is: |disk, door| {
            disk.name() == "open_tree"
                && disk.answer() == door.answer()
                && differs_only_in(disk, door, |line| line.starts_with("  descriptor"))
        },
    },
    Allowed {
        heading: "Clones of a tree",
        goes_on: false,
        is: |disk, door| {
            let is_clone = place::parse(disk.argument(2)).is_some_and(|flags| flags & 1 != 0);
            let is_made = !disk.answer().starts_with('E');
            disk.name() == "open_tree" && is_clone && is_made && door.answer() == "ENOSYS"
        },
    },
    Allowed {
        heading: "Copies onto themselves",
        goes_on: false,
        is: |disk, door| {
            let is_content = |line: &str| line.starts_with("  content ") || line.starts_with("  end ");
            disk.call == LEFT
                && disk.before.lines().any(copies_onto_itself)
                && differs_only_in(disk, door, is_content)
        },
    },
    Allowed {
        heading: "Devices",
        goes_on: false,
        is: |disk, door| {
            let is_device = disk.answer() == "ENXIO" || !disk.answer().starts_with('E');
            let opens = disk.name().starts_with("open") || disk.name() == "creat";
            opens && is_device && door.answer() == "EOPNOTSUPP"
        },
    },
    Allowed {
        heading: "File handles",
        goes_on: true,
        is: |disk, door| {
            disk.name() == "name_to_handle_at"
                && door.answer() == "EOPNOTSUPP"
                && matches!(disk.answer(), "0" | "EOVERFLOW" | "EFAULT" | "EINVAL")
        },
    },
];

/// Whether one of the call's numbers is an offset that ext4 has no file for, and the store has.
fn has_far_offset(part: &Part<'_>) -> bool {
    let is_far = |number: u64| (1 << 43..1 << 63).contains(&number);
    let words = part.call.split([' ', ',', '[', ']']).skip(1);
    words.filter_map(place::parse).any(is_far)
}

/// Whether a line is of a `sendfile` between descriptors of one file, as the fixture opens them.
fn copies_onto_itself(line: &str) -> bool {
    const SAME: [i32; 3] = [3, 4, 30];
    let mut words = line.split(' ').skip(1);
    let is_sendfile = words.next().is_some_and(|name| name.starts_with("sendfile"));
    // The kernel takes the lower half.
    let mut descriptor = || words.next().and_then(place::parse).map(|number| number as i32);
    let (to, from) = (descriptor(), descriptor());
    let is_same = |descriptor: Option<i32>| descriptor.is_some_and(|descriptor| SAME.contains(&descriptor));
    is_sendfile && (to == from || is_same(to) && is_same(from))
}

/// A line without the time at its end.
fn without_time(line: &str) -> &str {
    line.strip_suffix(" now").or_else(|| line.strip_suffix(" old")).unwrap_or(line)
}

/// The final listing without the lines about named pipes.
fn without_pipes(told: &str) -> Vec<&str> {
    let mut is_told_of_pipe = false;
    let is_kept = |line: &&str| {
        if line.starts_with("tree ") {
            is_told_of_pipe = mode(line).is_some_and(is_pipe);
        }
        !is_told_of_pipe
    };
    told.lines().filter(is_kept).collect()
}

/// The mode in what a line tells of a file.
fn mode(line: &str) -> Option<&str> {
    let (before, _) = line.split_once(" links ")?;
    before.rsplit(' ').next()
}

/// Whether a mode, in octal, is a named pipe's.
fn is_pipe(mode: &str) -> bool {
    mode.len() == 5 && mode.starts_with('1')
}

/// Whether all lines that one side tells and the other does not are of this kind.
fn differs_only_in(disk: &Part<'_>, door: &Part<'_>, kind: impl Fn(&str) -> bool) -> bool {
    let (disk, door): (Vec<_>, Vec<_>) = (disk.told.lines().collect(), door.told.lines().collect());
    let other = |one: &[&str], other: &[&str]| one.iter().all(|line| other.contains(line) || kind(line));
    other(&disk, &door) && other(&door, &disk)
}

/// Which of them this is, if it is one.
#[must_use]
pub fn find(disk: &Part<'_>, door: &Part<'_>) -> Option<&'static Allowed> {
    ALLOWED.iter().find(|allowed| (allowed.is)(disk, door))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_difference_that_stays_has_its_reason_in_the_document() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/door-differences.md");
        let text = std::fs::read_to_string(path).unwrap();
        for allowed in super::ALLOWED {
            let heading = format!("## {}\n", allowed.heading);
            assert!(text.contains(&heading), "{} has no {heading:?}", path);
        }
    }
}
