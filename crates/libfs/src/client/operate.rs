//! How an operation runs: attempts, until one stands.
//!
//! 1. The attempt runs under the open gate, in the lease generation that everything cached holds under.
//! 2. It resolves names and prepares its entry (log space, credit, an inode number) before it takes any lock.
//! 3. It locks inodes, appends the entry, and changes the cached state.
//! 4. The loop reads the generation again. If it moved, the session resynchronises. The attempt then stands
//!    only if SharedFS accepted its entry. A moved generation voids every answer that rests on cached state,
//!    also an error.
//!
//! An attempt that must wait (for a digest, credit or numbers) returns a [`Halt`]. The loop waits outside the
//! gate and starts the next attempt.

use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::client::retries::{LEASES_LOST, NAMES_DISAGREE, OPERATION_TRIES, Retries};
use crate::errno::Error;
use crate::sync::Ordering;
use cuesta_media::clock;

impl Client {
    /// Runs an operation until an attempt of it stands.
    pub(crate) fn operate<T>(
        &self,
        mut run: impl FnMut(&mut Attempt<'_>) -> Result<T, Halt>,
    ) -> Result<T, Error> {
        self.check_alive()?;
        let (mut unknown, mut retries) = (None, Retries::new(OPERATION_TRIES));
        loop {
            let gate = self.gate.read();
            let generation = self.session.generation.load(Ordering::Acquire);
            if self.session.shown_generation() != generation {
                drop(gate);
                self.with_daemon(|| self.resync())?;
                self.retry(&mut retries, LEASES_LOST)?;
                continue;
            }
            let connection = self.connection();
            let mut attempt = Attempt {
                client: self,
                generation,
                admission: None,
                debited: 0,
                charged: None,
                appended: None,
                tag: None,
                is_dependency: false,
                now: clock::now(),
            };
            let learned = match unknown.take().map_or(Ok(()), |inode| self.fetch_extended_of(inode)) {
                // The inode is gone: the attempt looks again at what the path names now.
                Err(Halt::Failed(Error::NotFound)) => Ok(()),
                learned => learned,
            };
            self.begin_instant();
            let mut result = learned.and_then(|()| run(&mut attempt));
            // Everything that the attempt read, it read before this fence.
            std::sync::atomic::fence(Ordering::Acquire);
            let moved = self.session.shown_generation() != generation;
            if attempt.appended.is_none()
                && matches!(result, Ok(_) | Err(Halt::Failed(_)))
                && !self.is_one_instant()
            {
                result = Err(Halt::Again);
            }
            let Attempt { admission, debited, charged, appended, .. } = attempt;
            drop(admission);
            if appended.is_none() {
                self.session.give_back_debit(debited);
                self.session.give_back_charge(charged);
            }
            drop(gate);
            let mut stands = !moved;
            if moved {
                self.with_daemon(|| self.resync())?;
                stands = appended.is_some_and(|end| self.was_accepted(generation, end));
            }
            let wait_progress =
                result.as_ref().is_err_and(Halt::is_wait).then(|| self.session.wait_progress());
            match result {
                Ok(value) if stands => {
                    self.after_operation(appended);
                    return Ok(value);
                }
                Err(Halt::Failed(Error::Disconnected)) => self.resume(connection)?,
                Err(Halt::Failed(error)) if !moved => {
                    self.after_operation(appended);
                    return Err(error);
                }
                Ok(_) | Err(Halt::Failed(_) | Halt::Again) => {}
                Err(Halt::LogFull(needed)) => self.with_daemon(|| self.make_room(needed))?,
                Err(Halt::Credit(blocks)) => self.with_daemon(|| self.make_credit(blocks))?,
                Err(Halt::Numbers) => self.with_daemon(|| self.session.ask_numbers())?,
                Err(Halt::Entries) => self.with_daemon(|| self.await_digest_of_entries())?,
                Err(Halt::Unwritten) => self.await_disk()?,
                Err(Halt::Undigested) => self.digest()?,
                Err(Halt::Dependencies) => self.log_dependencies()?,
                Err(Halt::Room { payer, needed }) => self.with_daemon(|| self.make_room_of(payer, needed))?,
                Err(Halt::Extended(inode)) => unknown = Some(inode),
            }
            self.retry_after_wait(
                wait_progress,
                &mut retries,
                if moved { LEASES_LOST } else { NAMES_DISAGREE },
            )?;
        }
    }
}
