//! What a hostile session does, as bytes that can be changed anywhere and still mean something.

use cuesta_format::InodeNumber;
use cuesta_format::entry::EntryKind;

/// Longest body of an entry.
const BODY_BYTES_MAX: usize = 1 << 12;

/// One thing it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Appends an entry whose checksums are right.
    Entry { kind: u8, flags: u8, inode: u16, argument: u64, debit: u8, body: Vec<u8> },
    /// Asks for a digest.
    Digest,
    /// Asks for a lease.
    Acquire { inode: u16, write: bool },
    /// Gives one back.
    GiveBack { inode: u16 },
    /// The honest session does something, for which it may take leases away.
    Honest,
    /// Writes over what it has written, so many bytes back.
    Rewrite { back: u16, bytes: Vec<u8> },
    /// Says that its log is complete up to here,
    Complete { at: u64 },
    /// and that it is done with what lies before.
    Retire { at: u64 },
    /// Says what it has open.
    Open { slots: u32, slot: u8, inode: u16, unlisted: u64 },
    /// Cuts a file of its log.
    Cut { slot: u8, bytes: u16 },
    /// Asks for a file in mapped mode.
    Map { inode: u16 },
    /// Ends, and the daemon is killed and started again.
    Restart,
}

/// Takes numbers and bytes off the front; what is missing is zero.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn word<const BYTES: usize>(&mut self) -> u64 {
        let (here, rest) = self.0.split_at(BYTES.min(self.0.len()));
        self.0 = rest;
        here.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }

    fn bytes(&mut self) -> &'a [u8] {
        let wanted = (self.word::<2>() as usize).min(BODY_BYTES_MAX);
        let (here, rest) = self.0.split_at(wanted.min(self.0.len()));
        self.0 = rest;
        here
    }
}

/// The steps that bytes stand for.
pub fn decode(bytes: &[u8]) -> impl Iterator<Item = Step> {
    let mut input = Input(bytes);
    std::iter::from_fn(move || {
        if input.0.is_empty() {
            return None;
        }
        Some(match input.word::<1>() % 12 {
            0 => Step::Entry {
                kind: input.word::<1>() as u8,
                flags: input.word::<1>() as u8,
                inode: input.word::<2>() as u16,
                argument: input.word::<8>(),
                debit: input.word::<1>() as u8,
                body: input.bytes().to_vec(),
            },
            1 => Step::Digest,
            2 => Step::Acquire { inode: input.word::<2>() as u16, write: input.word::<1>() % 2 == 1 },
            3 => Step::GiveBack { inode: input.word::<2>() as u16 },
            4 => Step::Honest,
            5 => Step::Rewrite { back: input.word::<2>() as u16, bytes: input.bytes().to_vec() },
            6 => Step::Complete { at: input.word::<8>() },
            7 => Step::Retire { at: input.word::<8>() },
            8 => Step::Open {
                slots: input.word::<4>() as u32,
                slot: input.word::<1>() as u8,
                inode: input.word::<2>() as u16,
                unlisted: input.word::<8>(),
            },
            9 => Step::Cut { slot: input.word::<1>() as u8, bytes: input.word::<2>() as u16 },
            10 => Step::Map { inode: input.word::<2>() as u16 },
            _ => Step::Restart,
        })
    })
}

/// The bytes of a script.
#[must_use]
pub fn encode(steps: &[Step]) -> Vec<u8> {
    let mut out = Vec::new();
    let with_length = |out: &mut Vec<u8>, bytes: &[u8]| {
        out.extend((bytes.len() as u16).to_le_bytes());
        out.extend(bytes);
    };
    for step in steps {
        match step {
            Step::Entry { kind, flags, inode, argument, debit, body } => {
                out.extend([0, *kind, *flags]);
                out.extend(inode.to_le_bytes());
                out.extend(argument.to_le_bytes());
                out.push(*debit);
                with_length(&mut out, body);
            }
            Step::Digest => out.push(1),
            Step::Acquire { inode, write } => {
                out.push(2);
                out.extend(inode.to_le_bytes());
                out.push(u8::from(*write));
            }
            Step::GiveBack { inode } => {
                out.push(3);
                out.extend(inode.to_le_bytes());
            }
            Step::Honest => out.push(4),
            Step::Rewrite { back, bytes } => {
                out.push(5);
                out.extend(back.to_le_bytes());
                with_length(&mut out, bytes);
            }
            Step::Complete { at } => {
                out.push(6);
                out.extend(at.to_le_bytes());
            }
            Step::Retire { at } => {
                out.push(7);
                out.extend(at.to_le_bytes());
            }
            Step::Open { slots, slot, inode, unlisted } => {
                out.push(8);
                out.extend(slots.to_le_bytes());
                out.push(*slot);
                out.extend(inode.to_le_bytes());
                out.extend(unlisted.to_le_bytes());
            }
            Step::Cut { slot, bytes } => {
                out.extend([9, *slot]);
                out.extend(bytes.to_le_bytes());
            }
            Step::Map { inode } => {
                out.push(10);
                out.extend(inode.to_le_bytes());
            }
            Step::Restart => out.push(11),
        }
    }
    out
}

/// The kind a byte stands for; some are none, and are left to the target of logs.
#[must_use]
pub fn kind(byte: u8) -> EntryKind {
    EntryKind::from_byte(1 + byte % 16).unwrap_or(EntryKind::Void)
}

/// An inode of a script.
#[must_use]
pub fn inode(number: u16) -> InodeNumber {
    InodeNumber(u64::from(number))
}
