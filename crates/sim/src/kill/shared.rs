//! A directory that several programs write to at once, and what it must hold after a kill.
//!
//! Each program publishes one note after the other: it writes a note under a name of its own, gives it a second one,
//! renames that over one of a few places all programs share, and in the end the first to a name that stays. What is
//! published stays; a shared place holds a whole note, and no program's note that the same program had replaced there.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::str::FromStr;

/// Places all programs publish to.
const PLACES: u64 = 3;

/// A program's `number`th note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The program that wrote it.
    pub program: u64,
    /// From 0.
    pub number: u64,
}

/// How far a program came: notes known to be published, and notes begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// These must be there.
    pub acknowledged: u64,
    /// Nothing behind these can be.
    pub issued: u64,
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.program, self.number)
    }
}

impl FromStr for Note {
    type Err = ();

    fn from_str(text: &str) -> Result<Note, ()> {
        let (program, number) = text.split_once('-').ok_or(())?;
        Ok(Note { program: program.parse().map_err(drop)?, number: number.parse().map_err(drop)? })
    }
}

impl Note {
    /// The content of the note: itself, many times.
    fn content(self) -> String {
        format!("{self} ").repeat(20 + (self.number % 300) as usize)
    }

    fn place(self) -> u64 {
        self.number % PLACES
    }

    /// The note whose whole content this is.
    fn read(content: &[u8]) -> Option<Note> {
        let text = std::str::from_utf8(content).ok()?;
        let note: Note = text.split(' ').next()?.parse().ok()?;
        (note.content() == text).then_some(note)
    }

    /// Publishes it in `directory`, by plain libc calls.
    pub fn publish(self, directory: &str) -> io::Result<()> {
        let path = |name: String| CString::new(format!("{directory}/{name}")).expect("no zero bytes");
        let (own, kept) = (path(format!("own-{}", self.program)), path(format!("kept-{self}")));
        let second = path(format!("own-{}-again", self.program));
        let place = path(format!("place-{}", self.place()));
        let content = self.content();
        let done = |result: isize| match result {
            -1 => Err(io::Error::last_os_error()),
            result => Ok(result),
        };
        // SAFETY: the paths are NUL-terminated and the content is valid for its length.
        unsafe {
            // A note that a kill in the middle left may be in its place already.
            libc::unlink(own.as_ptr());
            libc::unlink(second.as_ptr());
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
            let file = done(libc::open(own.as_ptr(), flags, 0o644) as isize)? as i32;
            let written = done(libc::write(file, content.as_ptr().cast(), content.len()));
            libc::close(file);
            if written? != content.len() as isize {
                return Err(io::Error::other("a short write"));
            }
            done(libc::link(own.as_ptr(), second.as_ptr()) as isize)?;
            done(libc::rename(second.as_ptr(), place.as_ptr()) as isize)?;
            done(libc::rename(own.as_ptr(), kept.as_ptr()) as isize)?;
        }
        Ok(())
    }
}

/// How many notes of each program survived in `directory`, if they are those that must and can have.
pub fn verify(directory: &str, published: &[Published]) -> Result<Vec<u64>, String> {
    let mut kept: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); published.len()];
    let mut places = vec![None; PLACES as usize];
    let failed = |error: io::Error| format!("the shared directory cannot be read: {error}");
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if name.starts_with("own-") {
            continue;
        }
        let content = std::fs::read(format!("{directory}/{name}")).map_err(failed)?;
        let whole =
            || Note::read(&content).ok_or_else(|| format!("{name}: {} bytes are no note", content.len()));
        if let Some(note) = name.strip_prefix("kept-") {
            let wanted: Note = note.parse().map_err(|()| format!("{name}: who made this name?"))?;
            if whole()? != wanted {
                return Err(format!("{name} holds note {}", whole()?));
            }
            kept[wanted.program as usize].insert(wanted.number);
        } else if let Some(place) = name.strip_prefix("place-") {
            let place = place.parse::<usize>().ok().and_then(|place| places.get_mut(place));
            *place.ok_or_else(|| format!("{name}: who made this name?"))? = Some(whole()?);
        } else {
            return Err(format!("{name}: who made this name?"));
        }
    }
    for (program, (Published { acknowledged, issued }, kept)) in published.iter().zip(&kept).enumerate() {
        if !kept.iter().copied().eq(0..kept.len() as u64) {
            return Err(format!("program {program}: notes {kept:?} are linked"));
        }
        if !(*acknowledged..=*issued).contains(&(kept.len() as u64)) {
            return Err(format!(
                "program {program}: {} notes, {acknowledged} to {issued} expected",
                kept.len()
            ));
        }
    }
    for (place, found) in places.iter().enumerate() {
        let last =
            |published: &Published| (0..published.acknowledged).rev().find(|n| n % PLACES == place as u64);
        match found {
            None if published.iter().any(|published| last(published).is_some()) => {
                return Err(format!("place {place} is empty"));
            }
            Some(note) if last(&published[note.program as usize]).is_some_and(|last| note.number < last) => {
                return Err(format!("place {place} holds {note}, which its program had replaced"));
            }
            _ => {}
        }
    }
    Ok(kept.iter().map(|kept| kept.len() as u64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_published_is_there_whole_and_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        for number in 0..5 {
            Note { program: 0, number }.publish(path).unwrap();
            Note { program: 1, number }.publish(path).unwrap();
        }
        let published = |acknowledged, issued| Published { acknowledged, issued };
        assert_eq!(verify(path, &[published(5, 5), published(4, 6)]), Ok(vec![5, 5]));
        assert!(verify(path, &[published(6, 6), published(5, 5)]).is_err());
        assert!(verify(path, &[published(0, 4), published(5, 5)]).is_err());
        let place = directory.path().join("place-1");
        std::fs::remove_file(&place).unwrap();
        std::fs::write(&place, Note { program: 1, number: 1 }.content()).unwrap();
        let stale = verify(path, &[published(5, 5), published(5, 5)]).unwrap_err();
        assert!(stale.contains("had replaced"), "{stale}");
        std::fs::write(&place, "0-4 0-").unwrap();
        assert!(verify(path, &[published(5, 5), published(5, 5)]).unwrap_err().contains("no note"));
        std::fs::remove_file(&place).unwrap();
        assert!(verify(path, &[published(5, 5), published(5, 5)]).unwrap_err().contains("empty"));
    }
}
