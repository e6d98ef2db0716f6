//! The sessions that have an inode, and those whose logs may still change it.

use cuesta_format::{LogPosition, SessionId};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) writer: Option<SessionId>,
    pub(super) readers: Vec<SessionId>,
    pub(super) lingering: Vec<(SessionId, LogPosition)>,
}

impl Lease {
    pub(super) fn is_vacant(&self) -> bool {
        self.writer.is_none() && self.readers.is_empty() && self.lingering.is_empty()
    }

    pub(super) fn holders(&self) -> impl Iterator<Item = SessionId> {
        self.writer.iter().chain(&self.readers).copied()
    }

    pub(super) fn involves(&self, session: SessionId) -> bool {
        let mut lingering = self.lingering.iter().map(|&(session, _)| session);
        self.holders().any(|holder| holder == session) || lingering.any(|other| other == session)
    }

    pub(super) fn remove(&mut self, session: SessionId) {
        self.writer = self.writer.filter(|&writer| writer != session);
        self.readers.retain(|&reader| reader != session);
        self.lingering.retain(|&(other, _)| other != session);
    }
}
