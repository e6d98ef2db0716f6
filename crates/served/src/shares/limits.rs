//! How much of the daemon other users may have: the policy. [`crate::shares::accounts`] keeps count, `docs/limits.md` lists all.
//!
//! The store's owner and root are not counted here: what other users may have together ends well below what the daemon
//! has, and the rest is theirs.

use super::resource::Resource;
use crate::ring::RING_BYTES;
use std::time::Duration;

/// A message and its answer that take no more than this together are not counted: 1,024 connections take 16 MiB so.
pub(crate) const UNCOUNTED_BYTES: usize = 16 << 10;
/// Descriptors that the daemon has for an open file: the writing end of its pipe, and what a file in mapped mode takes.
pub(crate) const DESCRIPTORS_OF_FILE: u64 = 2;
/// Of the daemon's descriptors other users may have one in so many.
const SHARE_OF_DESCRIPTORS: u64 = 2;
/// Of what other users may have one of them may have one in so many, where there is little.
const SHARE_OF_USER: u64 = 2;

/// One connection in so many may have a ring. Together the rings have as many threads as there may be connections.
const CONNECTIONS_OF_RING: u64 = 2;

/// What other users may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of one user.
    pub connections_of_user: u64,
    /// Connections of all of them.
    pub connections: u64,
    /// Open files of one user.
    pub files_of_user: u64,
    /// Open files of all of them.
    pub files: u64,
    /// Bytes of messages and answers that one user's requests take at once.
    pub message_bytes_of_user: u64,
    /// Bytes of messages and answers that all of their requests take at once.
    pub message_bytes: u64,
    /// How long a message may take to arrive once it has begun, and an answer to be taken.
    pub half_message: Duration,
    /// How long a new connection may say nothing.
    pub greeting: Duration,
    /// Descriptors that the daemon may have, for all users together.
    pub descriptors: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_of_user: 256,
            connections: 1024,
            files_of_user: 8 << 10,
            files: 32 << 10,
            message_bytes_of_user: 36 << 20,
            message_bytes: 128 << 20,
            half_message: Duration::from_secs(30),
            greeting: Duration::from_secs(10),
            descriptors: 64 << 10,
        }
    }
}

impl Limits {
    /// The most of `resource` that one user may have.
    pub(crate) fn of_user(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Connections => self.connections_of_user,
            Resource::Files => self.files_of_user,
            Resource::MessageBytes => self.message_bytes_of_user,
            Resource::RingBytes => self.connections_of_user / CONNECTIONS_OF_RING * RING_BYTES,
            Resource::LaneThreads => self.connections_of_user,
            Resource::Descriptors => self.of_all(resource) / SHARE_OF_USER,
        }
    }

    /// The most of `resource` that all other users may have together.
    pub(crate) fn of_all(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Connections => self.connections,
            Resource::Files => self.files,
            Resource::MessageBytes => self.message_bytes,
            Resource::RingBytes => self.connections / CONNECTIONS_OF_RING * RING_BYTES,
            Resource::LaneThreads => self.connections,
            Resource::Descriptors => self.descriptors / SHARE_OF_DESCRIPTORS,
        }
    }
}
