//! Finds the answer of each request. The file that answers it says what it means.

use super::trouble::{Trouble, invalid};
use crate::SharedFs;
use crate::metadata::MetadataError;
use crate::requests::granting::Ahead;
use crate::sessions::{Ending, Session};
use cuesta_format::SessionId;
use cuesta_format::wire::{DEPENDENCIES_MAX, PROTOCOL_VERSION, Refusal, Request, Response};
use cuesta_media::emulate::settle;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Most events of one answer.
const ANSWER_EVENTS: usize = 4096;
/// Bytes that a new inode and its name take in the metadata store, generously.
const METADATA_BYTES_OF_INODE: u64 = 1024;
/// Most inode numbers granted at once.
const NUMBERS_MAX: u32 = 1 << 16;
/// Longest wait of a trace request.
const TRACE_WAIT_MS: u32 = 10_000;

impl SharedFs {
    /// Answers a request of a session; [`SessionId::NOBODY`] stands for a caller that is not attached, which may ask for
    /// what concerns the store as a whole. Descriptors that go with the answer are appended to `descriptors`.
    pub fn handle(&self, session: SessionId, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Response {
        let asked = Instant::now();
        let answer = self.answer(session, request, descriptors);
        // No lock is held any more, and the thread serves one connection.
        settle();
        self.request_times.note(request, asked.elapsed());
        match answer {
            Ok(response) => response,
            Err(Trouble::Refused(refusal)) => Response::Failed(refusal),
            Err(Trouble::Failed(error)) => Response::Failed(error.into()),
        }
    }

    fn answer(
        &self,
        session: SessionId,
        request: &Request,
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<Response, Trouble> {
        if self.is_left() {
            return Err(MetadataError::Left.into());
        }
        match request {
            Request::Statfs { tree } => return Ok(Response::Statfs(self.totals_in(session, *tree)?)),
            Request::Quotas => return Ok(self.list_quotas()?),
            Request::SetQuota { of, limits } => return self.set_quota(of, *limits),
            Request::Status => return Ok(Response::Status(Box::new(self.status()?))),
            Request::Explain { path } => return self.explain(path),
            Request::Scrub { from } => return self.scrub(*from),
            Request::Drain { tier, from } => return self.drain_tier(*tier, *from),
            Request::ForgetTier { tier } => return self.forget_tier(*tier),
            Request::TierStats => return Ok(self.tier_stats()),
            Request::CheckPin { value } => return self.check_pin(value),
            Request::Pin { path, change } => return self.pin(path, change),
            Request::Migrate { path, tier, is_copy, from } => {
                return self.migrate(path, *tier, *is_copy, from);
            }
            Request::Trace { from, wait_ms } => {
                let wait = Duration::from_millis(u64::from((*wait_ms).min(TRACE_WAIT_MS)));
                return Ok(Response::Events(self.events.read(*from, ANSWER_EVENTS, wait)));
            }
            Request::Dsync => {
                self.dsync()?;
                return Ok(Response::Done);
            }
            Request::Stop => {
                self.digest_everything()?;
                return Ok(Response::Done);
            }
            Request::Attach { version, pid, program, first, resume, durability } => {
                if *version != PROTOCOL_VERSION {
                    return Err(Trouble::Refused(Refusal::Version { daemon: PROTOCOL_VERSION }));
                }
                let (_, mut welcome, handed) = match *resume {
                    SessionId::NOBODY => self.attach(*pid, program)?,
                    session => self.resume(session, *pid, program)?,
                };
                self.choose_durability(&mut welcome, *durability);
                welcome.ahead = self.grant_first(welcome.session, *first);
                descriptors.extend(handed);
                return Ok(Response::Attached(welcome));
            }
            _ => {}
        }
        if !self.core.lock().sessions.contains_key(&session) {
            return Err(Trouble::Refused(Refusal::SessionEnded));
        }
        match request {
            Request::CommitFile => self.commit_file(session, descriptors),
            Request::GrowLog { have, slots } => self.grow_log(session, *have, *slots, descriptors),
            Request::Acquire { inode, mode, ahead, beside, kept, sends } => {
                let ahead = Ahead::of(*inode, *ahead, beside);
                self.acquire(session, *inode, *mode, ahead, kept.as_ref(), *sends)
            }
            Request::Ahead { near, count } => Ok(self.ahead(session, *near, *count)?),
            Request::Lookup { parent, name } => self.lookup(session, *parent, name),
            Request::List { parent, after } => self.list(session, *parent, after),
            Request::Extents { inode, from_block } => self.extents(session, *inode, *from_block),
            Request::Extended { inode } => self.extended(session, *inode),
            Request::Map { inode } => self.map(session, *inode),
            Request::TakeLoss { inode } => {
                self.with_session(session, |found| Response::Lost(found.lost.remove(inode)))
            }
            Request::IsWritten { inode } => Ok(Response::Written(self.is_written(*inode))),
            Request::Pass { number, inode, description } => {
                self.pass(*number, *inode, description, descriptors)
            }
            Request::Passed { number } => self.passed(*number, descriptors),
            Request::NothingInKernel => {
                self.keep_nothing_in_kernel(session);
                Ok(Response::Done)
            }
            Request::GiveBack { inodes } => self.give_back(session, inodes),
            Request::Verify { inode, address } => {
                self.check_held(session, *inode)?;
                self.verify(*inode, *address)
            }
            Request::InodeNumbers { count } => {
                let count = (*count).clamp(1, NUMBERS_MAX);
                // Numbers are credit for metadata: inodes made with them must find room there.
                self.metadata.ensure_slack(u64::from(count) * METADATA_BYTES_OF_INODE)?;
                let (first, count) = self.grant_numbers(&mut self.core.lock(), session, count)?;
                Ok(Response::InodeNumbers { first, count })
            }
            Request::Credit { blocks } => self.credit(session, *blocks),
            Request::Window { tier, blocks, done } => {
                self.window(session, (*tier, *blocks), done, descriptors)
            }
            Request::Room { payer, needed } => self.room_of(session, *payer, *needed),
            Request::Report { from, skip } => self.with_session(session, |found| {
                self.reclaim(found, None);
                Response::Report(found.report(*from, *skip))
            }),
            Request::Arenas { arenas } => self.hand_out_arenas(arenas, descriptors),
            Request::Digest => {
                self.digest_completed(session)?;
                // One whose log proves wrong is ended by that.
                self.with_session(session, |_| Response::Done)
            }
            Request::Resync => self.resync(session),
            Request::Stands => self.stands(),
            Request::Marks => self.marks_of(session, descriptors),
            Request::MakeDurable { logs } => {
                if logs.len() > DEPENDENCIES_MAX {
                    return Err(invalid("too many logs at once"));
                }
                self.make_durable(logs.iter().copied())?;
                self.save_staged()?;
                Ok(Response::Done)
            }
            Request::Accessed { accesses } => {
                if let Err(error) = self.move_accesses(session, accesses) {
                    tracing::debug!(%error, "times of last access stay as they were");
                }
                Ok(Response::Done)
            }
            Request::Call { slot } => self.last_call(*slot),
            Request::Detach => {
                self.end_session(session, Ending::Gone)?;
                Ok(Response::Done)
            }
            Request::Attach { .. }
            | Request::Statfs { .. }
            | Request::Status
            | Request::Quotas
            | Request::SetQuota { .. }
            | Request::Explain { .. }
            | Request::Scrub { .. }
            | Request::Migrate { .. }
            | Request::Drain { .. }
            | Request::ForgetTier { .. }
            | Request::TierStats
            | Request::CheckPin { .. }
            | Request::Pin { .. }
            | Request::Trace { .. }
            | Request::KeepInKernel
            | Request::Stop
            | Request::Dsync
            | Request::Unheard => Err(invalid("not a session's request")),
        }
    }

    pub(crate) fn with_session<R>(
        &self,
        session: SessionId,
        act: impl FnOnce(&mut Session) -> R,
    ) -> Result<R, Trouble> {
        let mut core = self.core.lock();
        core.sessions.get_mut(&session).map(act).ok_or(Trouble::Refused(Refusal::SessionEnded))
    }
}
