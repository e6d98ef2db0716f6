//! The metadata's file, twice on medium `block`: a page that is damaged in one copy comes from the other.
//!
//! Mechanism: every write to the first copy goes to the second, in the same order. But the second is only fenced
//! behind each commit of the tree and when the store is closed. So the first one is all that a crash needs, as
//! ever. The second costs one flush of the disk more for each commit of the tree. Behind a loss of power the second
//! may be torn. It says that it is not in step, and is brought there when the store is opened: page by page where
//! the kept checksums differ.
//!
//! | found | done |
//! |---|---|
//! | one file is missing, cut, another store's, an old copy, or its header is damaged | all of it is written anew from the other |
//! | the second is behind the first | what differs is written to it |
//! | the first is behind the second, which a crash never leaves | all of the first is written anew |
//! | a page of one copy is not what its checksum says | the page of the other, if that is what either checksum says |

use super::checked_pages::{CheckedPages, PAGE_BYTES, SUMS, medium_bytes};
use super::header::{
    Header, JOURNAL_OFFSET, LENGTH_OFFSET, MAGIC, MAGIC_OFFSET, Owner, STEP_OFFSET, Step, TREE_OFFSET,
    WRITTEN_OFFSET, seal, stamp_in, write_stamp,
};
use crate::metadata::MetadataError;
use crate::metadata::journal::is_newer;
use cuesta_format::stamp::Stamp;
use cuesta_media::{AccessError, GrowableMapping, MediaError, Medium};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are copied at once.
const COPIED_BYTES: usize = 1 << 20;

/// Where a metadata store lies, and how it is opened.
#[derive(Clone, Debug)]
pub struct Files {
    path: PathBuf,
    medium: Medium,
    owner: Option<Owner>,
    heals: bool,
}

impl Files {
    /// Files of any store, which are mended where one copy can be from the other.
    #[must_use]
    pub fn new(path: &Path, medium: Medium) -> Files {
        Files { path: path.to_owned(), medium, owner: None, heals: true }
    }

    /// Of a certain store alone, and not an old copy.
    #[must_use]
    pub fn of(self, owner: Owner) -> Files {
        Files { owner: Some(owner), ..self }
    }

    /// Read from whichever copy is sound, and not mended.
    #[must_use]
    pub fn only_looked_at(self) -> Files {
        Files { heals: false, ..self }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether they may be changed.
    pub(crate) fn heals(&self) -> bool {
        self.heals
    }

    /// Where the second copy lies, if there is to be one.
    pub(crate) fn second(&self) -> Option<PathBuf> {
        (self.medium == Medium::Block).then(|| self.path.with_extension("copy"))
    }

    /// Whether any copy is there and holds anything.
    pub(crate) fn exist(&self) -> Exist {
        let length = |path: &Path| path.metadata().ok().map(|found| found.len());
        let lengths = [length(&self.path), self.second().and_then(|path| length(&path))];
        match lengths {
            [None, None] => Exist::No,
            _ if lengths.iter().flatten().all(|&length| length == 0) => Exist::Empty,
            _ => Exist::Yes,
        }
    }
}

/// Whether there are files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exist {
    No,
    Empty,
    Yes,
}

/// The copies, mapped.
#[derive(Debug)]
pub(crate) struct Copies {
    pub(crate) first: GrowableMapping,
    second: Option<GrowableMapping>,
    heals: bool,
    /// An orderly end leaves the second copy in step.
    ends_in_step: bool,
    /// Where the copies keep different checksums of a page, and the first is damaged, the second is not older.
    is_second_trusted: bool,
    /// Held while a page is mended.
    healing: Mutex<()>,
    healed: AtomicU64,
    flaws: Mutex<Vec<String>>,
}

/// A page as it lies in one copy.
struct Page {
    bytes: [u8; PAGE_BYTES as usize],
    /// The checksum of these bytes.
    found: u32,
    /// The one that is kept.
    kept: u32,
}

impl Page {
    fn is_sound(&self) -> bool {
        self.found == self.kept
    }
}

fn damaged(error: impl std::fmt::Display) -> MetadataError {
    MetadataError::Damaged(error.to_string())
}

impl Copies {
    /// Maps them, makes them one, and answers what the header says; `None`: both are empty.
    pub(crate) fn open(files: &Files) -> Result<(Copies, Option<Header>), MetadataError> {
        let second_path = files.second();
        // A caller that only looks makes no file.
        let opens = |path: &PathBuf| files.heals || path.exists();
        let is_first_there = opens(&files.path);
        let path = match &second_path {
            Some(second) if !is_first_there => second,
            _ => &files.path,
        };
        let first = GrowableMapping::open(path, files.medium)?;
        let second = match &second_path {
            Some(second) if is_first_there && opens(second) => {
                Some(GrowableMapping::open(second, files.medium)?)
            }
            _ => None,
        };
        let copies = Copies {
            first,
            second,
            heals: files.heals,
            ends_in_step: files.heals,
            is_second_trusted: true,
            healing: Mutex::new(()),
            healed: AtomicU64::new(0),
            flaws: Mutex::default(),
        };
        if copies.first.is_empty() && copies.second.as_ref().is_none_or(|second| second.is_empty()) {
            return Ok((copies, None));
        }
        if !is_first_there {
            copies.note(format!("{} is missing", name(&files.path)));
        }
        let (copies, header) = copies.settle(files, second_path.as_deref())?;
        Ok((copies, Some(header)))
    }

    /// Has both say the same.
    fn settle(
        mut self,
        files: &Files,
        second_path: Option<&Path>,
    ) -> Result<(Copies, Header), MetadataError> {
        let owner = files.owner.as_ref();
        let first = Header::read(&self.first, &files.path, owner);
        let (Some(second), Some(second_path)) = (&self.second, second_path) else {
            return Ok((self, first?));
        };
        let other = Header::read(second, second_path, owner);
        let (first, other) = match (first, other) {
            (Err(why), Err(_)) => return Err(why),
            (Ok(first), Err(_)) if first.stamp.is_none() && second.is_empty() => {
                // A store of before has one copy.
                self.rebuild(Side::Second)?;
                return Ok((self, first));
            }
            (Ok(first), Err(why)) => {
                self.note(format!("{}: {why}", name(second_path)));
                self.rebuild(Side::Second)?;
                if !self.heals {
                    self.second = None;
                }
                return Ok((self, first));
            }
            (Err(why), Ok(other)) => {
                self.note(format!("{}: {why}", name(&files.path)));
                return self.give_way(other);
            }
            (Ok(first), Ok(other)) => (first, other),
        };
        match (first.journal, other.journal) {
            (None, Some(_)) => {
                self.note(format!(
                    "{}: the number that says how far its journal counts is damaged",
                    name(&files.path)
                ));
                return self.give_way(other);
            }
            (Some(one), Some(two)) if is_newer(two, one) => {
                self.note(format!("{} is older than {}", name(&files.path), name(second_path)));
                return self.give_way(other);
            }
            (Some(one), Some(two)) if one != two && other.in_step => {
                self.note(format!("{} is older than {}", name(second_path), name(&files.path)));
            }
            _ => {}
        }
        self.is_second_trusted = other.in_step;
        if self.heals {
            self.is_second_trusted |= self.reconcile(&first, &other)?;
        } else if other.in_step {
            // Even a check that only looks opens the tree, which redb writes to.
            write_word(second, STEP_OFFSET, seal(Step::Behind as u64)).map_err(damaged)?;
            second.fence().map_err(damaged)?;
            self.ends_in_step = true;
        }
        Ok((self, first))
    }

    /// The second copy counts, and the first is written anew from it.
    fn give_way(mut self, other: Header) -> Result<(Copies, Header), MetadataError> {
        if self.heals {
            self.rebuild(Side::First)?;
        } else if let Some(second) = self.second.take() {
            self.first = second;
        }
        Ok((self, other))
    }

    /// Something was wrong with a copy.
    fn note(&self, flaw: String) {
        tracing::error!(%flaw, "a copy of the metadata is not what it should be; the other one is used");
        self.healed.fetch_add(1, Ordering::Relaxed);
        let mut flaws = self.flaws.lock();
        if !flaws.contains(&flaw) {
            flaws.push(flaw);
        }
    }

    /// Flaws of copies since they were opened.
    pub(crate) fn flaws(&self) -> Vec<String> {
        self.flaws.lock().clone()
    }

    /// How often one copy was mended from the other.
    pub(crate) fn healed(&self) -> u64 {
        self.healed.load(Ordering::Relaxed)
    }

    /// Writes all of one copy anew from the other. Until that is done it has no magic.
    fn rebuild(&self, side: Side) -> Result<(), MetadataError> {
        let Some(second) = self.second.as_ref().filter(|_| self.heals) else { return Ok(()) };
        let (from, to) = match side {
            Side::First => (second, &self.first),
            Side::Second => (&self.first, second),
        };
        if to.len() >= TREE_OFFSET {
            write_word(to, MAGIC_OFFSET, 0).and_then(|()| to.fence()).map_err(damaged)?;
        }
        if to.len() != from.len() {
            to.set_len(from.len())?;
        }
        let mut piece = vec![0; COPIED_BYTES];
        let mut at = 8;
        while at < from.len() {
            let part = &mut piece[..(from.len() - at).min(COPIED_BYTES as u64) as usize];
            from.read(at, part).map_err(damaged)?;
            to.write_through(at, part).map_err(damaged)?;
            at += part.len() as u64;
        }
        write_word(second, STEP_OFFSET, seal(Step::Behind as u64)).map_err(damaged)?;
        to.fence().map_err(damaged)?;
        write_word(to, MAGIC_OFFSET, MAGIC).and_then(|()| to.fence()).map_err(damaged)
    }

    /// Brings the second copy in step: a crash may have left it behind. False: not everywhere.
    fn reconcile(&self, first: &Header, other: &Header) -> Result<bool, MetadataError> {
        let Some(second) = &self.second else { return Ok(true) };
        let mut is_all_settled = true;
        write_word(second, STEP_OFFSET, seal(Step::Behind as u64)).map_err(damaged)?;
        second.fence().map_err(damaged)?;
        if second.len() != self.first.len() {
            second.set_len(self.first.len())?;
        }
        let numbers = [
            (LENGTH_OFFSET, Some(first.length)),
            (WRITTEN_OFFSET, Some(first.written)),
            (JOURNAL_OFFSET, first.journal),
        ];
        for (offset, number) in numbers {
            number.map_or(Ok(()), |number| write_word(second, offset, seal(number))).map_err(damaged)?;
        }
        if let Some(stamp) = first.stamp.filter(|stamp| other.stamp != Some(*stamp)) {
            write_stamp(second, &stamp).map_err(damaged)?;
        }
        let pages = [&self.first, second].map(pages);
        let end = first.written.max(other.written).div_ceil(PAGE_BYTES);
        for start in (0..end).step_by(SUMS) {
            let sums = pages.map(|pages| pages.sums(start * PAGE_BYTES));
            let is_same = matches!(&sums, [Ok(one), Ok(two)] if one == two);
            if is_same && other.in_step {
                continue;
            }
            for page in start..end.min(start + SUMS as u64) {
                let differ = match &sums {
                    [Ok(one), Ok(two)] => one[(page - start) as usize] != two[(page - start) as usize],
                    _ => true,
                };
                // Of a page that was being written, a crash may leave the checksum alone.
                let is_torn =
                    || !other.in_step && !load(second, page * PAGE_BYTES).is_some_and(|page| page.is_sound());
                if differ || is_torn() {
                    is_all_settled &= self.settle_page(page * PAGE_BYTES, other.in_step);
                }
            }
        }
        second.fence().map_err(damaged)?;
        Ok(is_all_settled)
    }

    /// A page of which the copies keep different checksums. False: they still do.
    fn settle_page(&self, page: u64, was_in_step: bool) -> bool {
        let Some(second) = &self.second else { return true };
        if let Some(one) = load(&self.first, page)
            && one.is_sound()
        {
            if was_in_step {
                self.note(format!("page {page} of the second copy was damaged"));
            }
            return pages(second).write(page, &one.bytes).is_ok();
        }
        self.mend_trusting(page, was_in_step).is_some()
    }

    /// Reads a page that is not what it should be in the first copy from the second, and mends the first. `None`: neither copy has it.
    pub(crate) fn mend(&self, page: u64) -> Option<[u8; PAGE_BYTES as usize]> {
        self.mend_trusting(page, self.is_second_trusted)
    }

    /// The same, where the second copy counts if nothing says which of the two does, or does not.
    fn mend_trusting(&self, page: u64, is_second_trusted: bool) -> Option<[u8; PAGE_BYTES as usize]> {
        let second = self.second.as_ref()?;
        let _healing = self.healing.lock();
        let (one, two) = (load(&self.first, page), load(second, page));
        let (right, why) = match (one, two) {
            (Some(one), _) if one.is_sound() => return Some(one.bytes),
            (Some(one), Some(two)) if two.found == one.kept => (two, "its bytes"),
            (Some(one), Some(two)) if one.found == two.kept => (one, "its checksum"),
            (_, Some(two)) if two.is_sound() && is_second_trusted => (two, "it"),
            _ => return None,
        };
        self.note(format!("page {page} of the tree: {why} were not what was written"));
        if self.heals {
            let mended = pages(&self.first)
                .write(page, &right.bytes)
                .and_then(|()| pages(second).write(page, &right.bytes))
                .and_then(|()| self.first.fence())
                .and_then(|()| second.fence());
            if let Err(error) = mended {
                tracing::error!(page, %error, "the page cannot be written anew");
            }
        }
        Some(right.bytes)
    }

    /// Looks at a page in both copies, and mends what can be. False: neither has it.
    pub(crate) fn scrub(&self, page: u64) -> bool {
        let is_sound = load(&self.first, page).is_some_and(|page| page.is_sound());
        if !is_sound && self.mend(page).is_none() {
            return false;
        }
        let Some(second) = &self.second else { return true };
        let _healing = self.healing.lock();
        let (one, two) = (load(&self.first, page), load(second, page));
        if let Some(one) = one.filter(Page::is_sound)
            && two.is_none_or(|two| !two.is_sound() || two.kept != one.kept)
        {
            self.note(format!("page {page} of the second copy was damaged"));
            if self.heals {
                let _ = pages(second).write(page, &one.bytes).and_then(|()| second.fence());
            }
        }
        true
    }

    /// Whether there are two.
    pub(crate) fn are_two(&self) -> bool {
        self.second.is_some()
    }

    /// Writes to both copies; the first has it behind the next fence.
    pub(crate) fn write_through(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.first.write_through(offset, bytes)?;
        self.second.as_ref().map_or(Ok(()), |second| second.write_through(offset, bytes))
    }

    /// Writes a word of the header, durably in the first copy. The second copy gets it behind that, so that it never says more than the
    /// first one.
    pub(crate) fn write_word(&self, offset: u64, word: u64) -> Result<(), AccessError> {
        write_word(&self.first, offset, word)?;
        self.first.fence()?;
        self.second.as_ref().map_or(Ok(()), |second| write_word(second, offset, word))
    }

    /// Writes pages of the tree to both.
    pub(crate) fn write_pages(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        pages(&self.first).write(offset, bytes)?;
        self.second.as_ref().map_or(Ok(()), |second| pages(second).write(offset, bytes))
    }

    /// Cuts the tree in both.
    pub(crate) fn cut_pages(&self, length: u64, before: u64) -> Result<(), AccessError> {
        pages(&self.first).cut(length, before)?;
        self.second.as_ref().map_or(Ok(()), |second| pages(second).cut(length, before))
    }

    /// The first copy is durable.
    pub(crate) fn fence(&self) -> Result<(), AccessError> {
        self.first.fence()
    }

    /// The second copy is durable, too. One that cannot be written is behind, and no reason not to go on with the first.
    pub(crate) fn fence_second(&self) {
        if let Some(second) = &self.second
            && let Err(error) = second.fence()
        {
            tracing::error!(%error, "the second copy of the metadata cannot be written");
        }
    }

    pub(crate) fn set_len(&self, len: u64) -> Result<(), MediaError> {
        if let Some(second) = &self.second {
            second.set_len(len)?;
        }
        self.first.set_len(len)
    }

    pub(crate) fn write_zeros(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.first.write_zeros(offset, len)?;
        self.second.as_ref().map_or(Ok(()), |second| second.write_zeros(offset, len))
    }

    /// Reads bytes of the second copy.
    pub(crate) fn read_second(&self, offset: u64, out: &mut [u8]) -> Option<Result<(), AccessError>> {
        self.second.as_ref().map(|second| second.read(offset, out))
    }

    /// Writes anew a part of the header or the journal of the first copy, or of the second.
    pub(crate) fn mend_part(&self, side: Side, offset: u64, bytes: &[u8], told: Option<&str>) {
        let to = match (side, &self.second) {
            (Side::First, _) => &self.first,
            (Side::Second, Some(second)) => second,
            (Side::Second, None) => return,
        };
        if let Some(what) = told {
            self.note(format!("{what} was not what was written"));
        }
        if self.heals
            && let Err(error) = to.write_through(offset, bytes).and_then(|()| to.fence())
        {
            tracing::error!(%error, "it cannot be written anew");
        }
    }

    /// Nothing is written any more: the second copy is in step.
    pub(crate) fn close(&self) -> Result<(), AccessError> {
        self.first.fence()?;
        let Some(second) = self.second.as_ref().filter(|_| self.ends_in_step) else { return Ok(()) };
        second.fence()?;
        write_word(second, STEP_OFFSET, seal(Step::Equal as u64))?;
        second.fence()
    }

    /// Durably says of which opening the copies are.
    pub(crate) fn stamp(&self, stamp: &Stamp) -> Result<(), AccessError> {
        write_stamp(&self.first, stamp)?;
        self.second.as_ref().map_or(Ok(()), |second| write_stamp(second, stamp))
    }

    /// Whether the two copies say the same of how far the journal counts and of which opening they are.
    pub(crate) fn headers_agree(&self) -> bool {
        let Some(second) = &self.second else { return true };
        let part = |memory: &GrowableMapping| -> Option<([u8; 24], Option<Stamp>)> {
            let mut bytes = [0; 24];
            memory.read(LENGTH_OFFSET, &mut bytes).ok()?;
            Some((bytes, stamp_in(memory).ok()?))
        };
        const { assert!(JOURNAL_OFFSET + 8 == LENGTH_OFFSET + 24) };
        part(&self.first) == part(second)
    }

    /// Makes the second copy's header say the same as the first's.
    pub(crate) fn mend_header(&self) -> Result<(), AccessError> {
        let mut bytes = [0; 24];
        self.first.read(LENGTH_OFFSET, &mut bytes)?;
        self.mend_part(Side::Second, LENGTH_OFFSET, &bytes, Some("the header of the second copy"));
        match (stamp_in(&self.first)?, &self.second) {
            (Some(stamp), Some(second)) if self.heals => write_stamp(second, &stamp),
            _ => Ok(()),
        }
    }

    /// How much of the medium the copies take.
    pub(crate) fn bytes(&self) -> u64 {
        self.first.len() + self.second.as_ref().map_or(0, |second| second.len())
    }
}

/// One of the copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    First,
    Second,
}

fn pages(memory: &GrowableMapping) -> CheckedPages<'_> {
    CheckedPages { medium: memory, start: TREE_OFFSET }
}

/// A page as it lies there; `None`: the medium does not give it.
fn load(memory: &GrowableMapping, page: u64) -> Option<Page> {
    if TREE_OFFSET + medium_bytes(page + PAGE_BYTES) > memory.len() {
        return None;
    }
    let mut bytes = [0; PAGE_BYTES as usize];
    let (found, kept) = pages(memory).load(page, &mut bytes).ok()?;
    Some(Page { bytes, found, kept })
}

fn write_word(memory: &GrowableMapping, offset: u64, word: u64) -> Result<(), AccessError> {
    memory.write_through(offset, &word.to_le_bytes())
}

fn name(path: &Path) -> std::borrow::Cow<'_, str> {
    path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy())
}
