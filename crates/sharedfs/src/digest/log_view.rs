//! A session's log as a digest sees it, and how far a digest goes.

use crate::sessions::LogFiles;
use cuesta_format::entry::Salt;
use cuesta_format::{LeaseGeneration, LogGeneration, LogPosition, SessionId};
use cuesta_media::Node;
use std::ops::Range;

/// A session's log, as a digest needs to know it.
#[derive(Clone, Debug)]
pub struct LogView {
    /// The session.
    pub session: SessionId,
    /// Its segments.
    pub files: LogFiles,
    /// What its checksums are salted with.
    pub salt: Salt,
    /// The generation of the log.
    pub log_generation: LogGeneration,
    /// The lease generation its entries carry.
    pub lease_generation: LeaseGeneration,
    /// Where the digest goes on.
    pub from: LogPosition,
    /// How far the log is complete, as the session says: a hint.
    pub completed: LogPosition,
    /// Every entry before this was acknowledged: a log that ends earlier was damaged.
    pub whole: LogPosition,
    /// Nothing from here on is digested: it depends on entries that another log lost.
    pub cut: Option<LogPosition>,
    /// Everything before this is on the disk, as the session says, in its log or its commit file (medium
    /// `block`).
    pub durable: LogPosition,
    /// Inode numbers its new inodes may have.
    pub numbers: Range<u64>,
    /// Blocks promised to the session and not digested.
    pub promised: u64,
    /// Blocks debited by everything digested so far.
    pub debited: u64,
    /// Blocks it may debit in all.
    pub credit_limit: u64,
    /// The memory node its process was on when the log last grew, on a machine with several.
    pub node: Option<Node>,
}

/// How far a digest goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Up to the entries that are on the disk, if any are: content of theirs that is written over in place
    /// needs no wait before it. Else as far as the next.
    Durable,
    /// Up to the end that the session says is complete.
    Completed,
    /// Up to the first break: a fence, a recovery or the end of a session.
    Break,
}
