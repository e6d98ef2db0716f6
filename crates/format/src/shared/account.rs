//! What `cuesta doctor` and the preload door share: the calls of a program and of all it starts, by what became of
//! them, in one memory file that every process of the run maps.
//!
//! | part | found by | what it says |
//! |---|---|---|
//! | calls | open hashing on the kind (call, outcome, error) | how often, and the first few examples |
//! | programs | open hashing on the path | how often started, how often seen, and what keeps the library out |
//!
//! Entries are only added and counters only grow, each with one atomic step: a process that is killed anywhere leaves
//! its counts, at worst with an example or a name cut short. Zeroes are an account without entries. A call that does not
//! find room is counted as lost.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// The layout below; a process that knows another does not count.
pub const ACCOUNT_VERSION: u64 = 1;
/// Bytes of the file.
pub const ACCOUNT_BYTES: usize = size_of::<Account>();
/// Examples kept of a call that was not served; of others the first only.
pub const EXAMPLES: usize = 3;
/// Bytes of a path that are kept.
pub const TEXT_BYTES: usize = TEXT_WORDS * 8;

const CALLS: usize = 1024;
const PROGRAMS: usize = 512;
const TEXT_WORDS: usize = 15;
/// Makes a key differ from an empty entry.
const PRESENT: u64 = 1 << 63;

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It was about the store, and is not served yet.
    Unserved,
    /// It was about the store and served; it failed as such a call can.
    Failed,
    /// It was about the store, served and done.
    Served,
    /// It was about another file, and passed on to the kernel.
    Passed,
}

/// A kind of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The system call's number.
    pub number: u32,
    /// What became of it.
    pub outcome: Outcome,
    /// The error number answered, or 0.
    pub errno: u16,
}

/// What keeps the preload library out of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// It has no dynamic linker.
    Static,
    /// It changes its user or group, so that its dynamic linker loads nothing for others.
    SetId,
    /// It is for another mode of the processor.
    Foreign,
}

impl Barrier {
    /// What such a program is, in words.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Barrier::Static => "statically linked",
            Barrier::SetId => "a set-id program",
            Barrier::Foreign => "built for another processor mode",
        }
    }
}

/// A program of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramIndex(pub u32);

/// Bytes up to the first zero.
#[derive(Debug, FromBytes, IntoBytes)]
#[repr(C)]
struct Text([AtomicU64; TEXT_WORDS]);

/// One call among many of its kind.
#[derive(Debug, FromBytes, IntoBytes)]
#[repr(C)]
struct Example {
    /// The index of the program that made it, plus one; 0 is none.
    program: AtomicU64,
    about: Text,
}

#[derive(Debug, FromBytes, IntoBytes)]
#[repr(C)]
struct CallEntry {
    key: AtomicU64,
    count: AtomicU64,
    examples: [Example; EXAMPLES],
}

#[derive(Debug, FromBytes, IntoBytes)]
#[repr(C)]
struct ProgramEntry {
    key: AtomicU64,
    /// Times it was executed.
    executed: AtomicU32,
    /// Times the library started in it.
    watched: AtomicU32,
    /// Times it was refused, because it would have had something of the store.
    refused: AtomicU32,
    /// A [`Barrier`], plus one.
    barrier: AtomicU32,
    /// Most system call instructions that could not be intercepted in it.
    missed_sites: AtomicU64,
    path: Text,
}

/// The file, mapped.
#[derive(Debug, FromBytes, IntoBytes)]
#[repr(C)]
pub struct Account {
    version: AtomicU64,
    /// Calls and programs that found no room.
    lost: AtomicU64,
    calls: [CallEntry; CALLS],
    programs: [ProgramEntry; PROGRAMS],
}

const _: () = assert!(size_of::<Example>() == 128 && size_of::<CallEntry>() == 400);
const _: () = assert!(size_of::<ProgramEntry>() == 152 && ACCOUNT_BYTES == 16 + CALLS * 400 + PROGRAMS * 152);

/// What an account says of one kind of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedCall {
    /// The kind.
    pub kind: Kind,
    /// How often.
    pub count: u64,
    /// The first of them, each another: the program that made it, and the path it was about, cut off.
    pub examples: Vec<(ProgramIndex, Vec<u8>)>,
}

/// What an account says of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedProgram {
    /// Its place in the account.
    pub index: ProgramIndex,
    /// Its path, cut off.
    pub path: Vec<u8>,
    /// Times it was executed.
    pub executed: u32,
    /// Times the library started in it.
    pub watched: u32,
    /// Times it was refused, because it would have had something of the store.
    pub refused: u32,
    /// What keeps the library out, if that is known.
    pub barrier: Option<Barrier>,
    /// Most system call instructions that could not be intercepted in it.
    pub missed_sites: u64,
}

impl Kind {
    fn key(self) -> u64 {
        let outcome = match self.outcome {
            Outcome::Unserved => 0,
            Outcome::Failed => 1,
            Outcome::Served => 2,
            Outcome::Passed => 3,
        };
        PRESENT | outcome << 48 | u64::from(self.errno) << 32 | u64::from(self.number)
    }

    fn of_key(key: u64) -> Option<Kind> {
        let outcome = match key >> 48 & 3 {
            0 => Outcome::Unserved,
            1 => Outcome::Failed,
            2 => Outcome::Served,
            _ => Outcome::Passed,
        };
        (key & PRESENT != 0).then_some(Kind { number: key as u32, outcome, errno: (key >> 32) as u16 })
    }

    fn examples(self) -> usize {
        if self.outcome == Outcome::Unserved { EXAMPLES } else { 1 }
    }
}

impl Text {
    fn write(&self, bytes: &[u8]) {
        for (word, bytes) in self.0.iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
    }

    fn read(&self) -> Vec<u8> {
        let bytes = self.0.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        bytes.take_while(|byte| *byte != 0).collect()
    }

    fn is(&self, bytes: &[u8]) -> bool {
        self.read() == bytes[..bytes.len().min(TEXT_BYTES)]
    }
}

/// The entry with `key` in an open hash table, and whether it is new.
fn find<T>(entries: &[T], key: u64, key_of: impl Fn(&T) -> &AtomicU64) -> Option<(usize, bool)> {
    let start = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    (0..entries.len()).map(|step| (start + step) % entries.len()).find_map(|index| {
        match key_of(&entries[index]).compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Some((index, true)),
            Err(found) => (found == key).then_some((index, false)),
        }
    })
}

impl Account {
    /// An account without entries, to be written to the file.
    #[must_use]
    pub fn new() -> Option<Box<Account>> {
        let account = Account::new_box_zeroed().ok()?;
        account.version.store(ACCOUNT_VERSION, Ordering::Relaxed);
        Some(account)
    }

    /// Whether this is an account as described here.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.version.load(Ordering::Relaxed) == ACCOUNT_VERSION
    }

    /// Counts a call of `program`. `about` says what the call is about, and is asked while more examples of its kind are wanted.
    pub fn count(&self, kind: Kind, program: Option<ProgramIndex>, about: impl FnOnce() -> Vec<u8>) {
        let Some((index, _)) = find(&self.calls, kind.key(), |entry| &entry.key) else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let entry = &self.calls[index];
        entry.count.fetch_add(1, Ordering::Relaxed);
        let examples = &entry.examples[..kind.examples()];
        if examples.iter().all(|example| example.program.load(Ordering::Relaxed) != 0) {
            return;
        }
        let about = about();
        let program = program.map_or(u64::from(u32::MAX), |program| u64::from(program.0)) + 1;
        for example in examples {
            match example.program.compare_exchange(0, program, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    example.about.write(&about);
                    return;
                }
                Err(other) if other == program && example.about.is(&about) => return,
                Err(_) => {}
            }
        }
    }

    /// The program at `path`.
    pub fn program(&self, path: &[u8]) -> Option<ProgramIndex> {
        let hash = path.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let Some((index, is_new)) = find(&self.programs, hash | PRESENT, |entry| &entry.key) else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        if is_new {
            self.programs[index].path.write(path);
        }
        Some(ProgramIndex(index as u32))
    }

    fn entry(&self, program: ProgramIndex) -> Option<&ProgramEntry> {
        self.programs.get(program.0 as usize)
    }

    /// The program is executed.
    pub fn executes(&self, program: ProgramIndex) {
        if let Some(entry) = self.entry(program) {
            entry.executed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It was not, after all.
    pub fn did_not_execute(&self, program: ProgramIndex) {
        if let Some(entry) = self.entry(program) {
            entry.executed.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The library has started in it.
    pub fn watches(&self, program: ProgramIndex) {
        if let Some(entry) = self.entry(program) {
            entry.watched.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It is refused: it would have something of the store.
    pub fn refuses(&self, program: ProgramIndex) {
        if let Some(entry) = self.entry(program) {
            entry.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The library cannot be loaded into it.
    pub fn is_barred(&self, program: ProgramIndex, barrier: Barrier) {
        if let Some(entry) = self.entry(program) {
            let code = match barrier {
                Barrier::Static => 1,
                Barrier::SetId => 2,
                Barrier::Foreign => 3,
            };
            entry.barrier.store(code, Ordering::Relaxed);
        }
    }

    /// So many of its system call instructions cannot be intercepted.
    pub fn misses_sites(&self, program: ProgramIndex, sites: usize) {
        if let Some(entry) = self.entry(program) {
            entry.missed_sites.fetch_max(sites as u64, Ordering::Relaxed);
        }
    }

    /// The calls: those not served first, then by call, the most frequent first.
    #[must_use]
    pub fn counted_calls(&self) -> Vec<CountedCall> {
        let mut all: Vec<CountedCall> = self.calls.iter().filter_map(CallEntry::counted).collect();
        all.sort_by_key(|call| (call.kind.outcome, std::cmp::Reverse(call.count), call.kind.number));
        all
    }

    /// The programs, the most frequent first.
    #[must_use]
    pub fn counted_programs(&self) -> Vec<CountedProgram> {
        let entries = self.programs.iter().enumerate();
        let mut all: Vec<CountedProgram> =
            entries.filter_map(|(index, entry)| entry.counted(index)).collect();
        all.sort_by(|one, other| (other.executed, &one.path).cmp(&(one.executed, &other.path)));
        all
    }

    /// Calls and programs that found no room.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl CallEntry {
    fn counted(&self) -> Option<CountedCall> {
        let kind = Kind::of_key(self.key.load(Ordering::Relaxed))?;
        let examples = self.examples.iter().filter_map(|example| {
            let program = example.program.load(Ordering::Relaxed).checked_sub(1)?;
            Some((ProgramIndex(program as u32), example.about.read()))
        });
        Some(CountedCall { kind, count: self.count.load(Ordering::Relaxed), examples: examples.collect() })
    }
}

impl ProgramEntry {
    fn counted(&self, index: usize) -> Option<CountedProgram> {
        if self.key.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let barrier = match self.barrier.load(Ordering::Relaxed) {
            1 => Some(Barrier::Static),
            2 => Some(Barrier::SetId),
            3 => Some(Barrier::Foreign),
            _ => None,
        };
        let number = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
        Some(CountedProgram {
            index: ProgramIndex(index as u32),
            path: self.path.read(),
            executed: number(&self.executed),
            watched: number(&self.watched),
            refused: number(&self.refused),
            barrier,
            missed_sites: self.missed_sites.load(Ordering::Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MMAP: Kind = Kind { number: 9, outcome: Outcome::Unserved, errno: 19 };

    #[test]
    fn what_was_counted_is_told() {
        let account = Account::new().unwrap();
        let program = account.program(b"/bin/sh").unwrap();
        let served = Kind { number: 257, outcome: Outcome::Served, errno: 0 };
        for turn in 0..3 {
            account.count(served, Some(program), || format!("/cuesta/file{turn}").into_bytes());
        }
        for turn in 0..8 {
            account.count(MMAP, Some(program), || format!("/cuesta/{}", turn / 2).into_bytes());
        }
        account.count(Kind { errno: 95, ..MMAP }, None, || vec![b'x'; 500]);
        let about = |text: &str| (program, text.as_bytes().to_vec());
        let [first, second, third] = &account.counted_calls()[..] else { panic!("{account:?}") };
        assert_eq!((first.kind, first.count), (MMAP, 8));
        assert_eq!(first.examples, ["/cuesta/0", "/cuesta/1", "/cuesta/2"].map(about));
        assert_eq!((second.kind.errno, &second.examples[0].1), (95, &vec![b'x'; TEXT_BYTES]));
        assert_eq!(
            (third.kind, third.count, &third.examples[..]),
            (served, 3, &[about("/cuesta/file0")][..])
        );
    }

    #[test]
    fn programs_are_told_apart_by_their_paths() {
        let account = Account::new().unwrap();
        let (one, other) = (account.program(b"/bin/a").unwrap(), account.program(b"/bin/b").unwrap());
        assert_eq!(account.program(b"/bin/a"), Some(one));
        account.executes(one);
        account.executes(one);
        account.did_not_execute(one);
        account.watches(one);
        account.is_barred(other, Barrier::SetId);
        account.refuses(other);
        let [a, b] = &account.counted_programs()[..] else { panic!("{account:?}") };
        assert_eq!((&a.path[..], a.executed, a.watched, a.barrier), (&b"/bin/a"[..], 1, 1, None));
        assert_eq!((b.index, b.refused, b.barrier), (other, 1, Some(Barrier::SetId)));
    }

    #[test]
    fn what_finds_no_room_is_lost_and_said_to_be() {
        let account = Account::new().unwrap();
        for number in 0..CALLS as u32 + 5 {
            account.count(Kind { number, ..MMAP }, None, Vec::new);
        }
        assert_eq!((account.counted_calls().len(), account.lost()), (CALLS, 5));
    }
}
