//! The log's commit file (medium `block`). The session writes there, past the page cache, what an fsync waits
//! for. On a fast disk this takes little more than half as long as write-back of the log's pages
//! (docs/decisions/0034).
//!
//! The session asks SharedFS for the file after it has waited for the disk some times, so a program that
//! saves one file does without. If there is none, or a write to it fails, the session writes the log's own
//! pages, and asks again later. A full medium, or a process without descriptors, need not stay so.

use crate::mapped::kept_descriptors::{HeldDescriptor, KeptDescriptors};
use crate::session::session::Session;
use crate::sync::Mutex;
use cuesta_format::wire::Request;
use cuesta_format::wire::Response;
use cuesta_media::DirectWriter;
use cuesta_media::Piece;
use cuesta_media::Window;
use std::time::Duration;

/// The session's commit file, if it has one.
#[derive(Debug, Default)]
pub(crate) struct CommitFile(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    backoff: RequestBackoff,
    /// The file's descriptor and its writer, while there is one.
    here: Option<(HeldDescriptor, DirectWriter)>,
}

/// When the session asks for the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RequestBackoff {
    /// Waits for the disk since the session began, or since the last failure.
    waited: u32,
    /// How often there was no file, or a write to it failed.
    failures: u32,
}

/// Waits for the disk before the session asks again. Each time it is twice as many.
const WAITS_AGAIN: u32 = 64;
const DOUBLED_AT_MOST: u32 = 16;

impl RequestBackoff {
    /// Counts a wait. Says whether it is time to ask; `first` waits come before the first request.
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
        let Some(written) = held.with(|file| writer.write(file, window, pieces)) else { return false };
        if written.is_err() {
            *here = None;
            backoff.failed();
        }
        written.is_ok()
    }
}

fn ask_for(session: &Session, descriptors: &KeptDescriptors) -> Option<(HeldDescriptor, DirectWriter)> {
    let mut answered = Vec::new();
    let Ok(Response::Done) = session.call(&Request::CommitFile, &mut answered) else {
        return None;
    };
    let file = answered.pop()?;
    let held = HeldDescriptor::hold(descriptors, file)?;
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
