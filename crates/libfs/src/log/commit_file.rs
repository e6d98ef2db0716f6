//! The log's commit file (medium `block`): what is waited for is written there past the kernel's pages, which takes a fast disk
//! little more than half as long as having it write the pages (docs/decisions/0034).
//!
//! SharedFS is asked for it when the session has waited for the disk some times: a program that saves one file does without. Where
//! there is none, or it fails, the log's own pages are written as before, and it is asked for again some time later: a medium
//! that is full, or a process out of descriptors, need not stay so.

use crate::mapped::kept_descriptors::{KeptDescriptor, KeptDescriptors};
use crate::session::session::Session;
use crate::sync::Arc;
use crate::sync::Mutex;
use cuesta_format::wire::Request;
use cuesta_format::wire::Response;
use cuesta_media::DirectWriter;
use cuesta_media::Piece;
use cuesta_media::Window;
use rustix::fd::OwnedFd;
use std::time::Duration;

/// What a session has of it.
#[derive(Debug, Default)]
pub(crate) struct CommitFile(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    backoff: RequestBackoff,
    /// It, while there is one.
    here: Option<(CommitDescriptor, DirectWriter)>,
}

/// When it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RequestBackoff {
    /// Waits since the session began, or since it failed.
    waited: u32,
    /// How often there was none, or it failed.
    failures: u32,
}

/// Waits before it is asked for again; each time twice as many.
const WAITS_AGAIN: u32 = 64;

const DOUBLED_AT_MOST: u32 = 16;

impl RequestBackoff {
    /// Counts a wait. Says whether it is time to ask, where `first` waits come before the first time.
    fn is_over(&mut self, first: u32) -> bool {
        let waits = match self.failures {
            0 => first,
            failures => WAITS_AGAIN << (failures - 1).min(DOUBLED_AT_MOST),
        };
        let is_over = self.waited >= waits;
        self.waited = self.waited.saturating_add(1);
        is_over
    }

    fn failed(&mut self) {
        *self = RequestBackoff { waited: 0, failures: self.failures.saturating_add(1) };
    }
}

/// Its descriptor.
#[derive(Debug)]
enum CommitDescriptor {
    /// Among those of a program, by its door.
    Kept(Arc<KeptDescriptor>),
    /// This process has no door, and its descriptors are its own.
    Own(OwnedFd),
}

impl CommitFile {
    /// Writes pieces of the log to its commit file, durably. `false`: the log's own pages must be written.
    pub(crate) fn write(
        &self,
        session: &Session,
        descriptors: &KeptDescriptors,
        window: &Window,
        pieces: &[Piece],
    ) -> bool {
        let mut state = self.0.lock();
        let State { backoff, here } = &mut *state;
        if here.is_none() && backoff.is_over(session.welcome.commit_file_waits) {
            *here = ask_for(session, descriptors);
            if here.is_none() {
                backoff.failed();
            }
        }
        let Some((held, writer)) = here else { return false };
        let written = match held {
            CommitDescriptor::Own(file) => writer.write(file, window, pieces),
            CommitDescriptor::Kept(kept) => match kept.get() {
                Some(file) => writer.write(&file, window, pieces),
                // A thread whose descriptors are others'.
                None => return false,
            },
        };
        if written.is_err() {
            *here = None;
            backoff.failed();
        }
        written.is_ok()
    }
}

fn ask_for(session: &Session, descriptors: &KeptDescriptors) -> Option<(CommitDescriptor, DirectWriter)> {
    let mut answered = Vec::new();
    let Ok(Response::Done) = session.call(&Request::CommitFile, &mut answered) else {
        return None;
    };
    let file = answered.pop()?;
    let held = if descriptors.has_keeper() {
        CommitDescriptor::Kept(descriptors.keep(&file)?)
    } else {
        CommitDescriptor::Own(file)
    };
    let awake = Duration::from_micros(session.welcome.awake_us.into());
    Some((held, DirectWriter::new(awake).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_for_after_some_waits_and_again_after_twice_as_many_each_time() {
        const FIRST: u32 = 3;
        let mut backoff = RequestBackoff::default();
        let mut waits_until_asked = || {
            let waits = (0..).find(|_| backoff.is_over(FIRST));
            backoff.failed();
            waits.unwrap()
        };
        assert_eq!([(); 4].map(|()| waits_until_asked()), [FIRST, 64, 128, 256]);
        let many = (0..40).map(|_| waits_until_asked()).last();
        assert_eq!(many, Some(64 << 16), "it is never given up");
        assert!(RequestBackoff::default().is_over(0));
    }
}
