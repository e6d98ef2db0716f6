//! Playing a slower medium on a faster one, as a [`Profile`] asks.
//!
//! Mechanism: a thread that reads out of emulated memory, or makes stores into it durable, goes on when the medium that is played would have
//! let it, and until then looks at the clock, as a processor waits for memory. The wait ends at a deadline counted from
//! when the access began, so what the access takes by itself is part of what was asked for. Memory that is not emulated
//! costs one comparison more. To look at the clock takes time, too, by which the wait is shorter.
//!
//! Policy, the same for reads and writes: bytes go one behind the other over a channel, one for each direction, which
//! all processes of a store share (`channel.rs`), and meanwhile the latency runs. A read waits for both. A long write waits
//! for its bytes where it is made; those of short ones are paid for by the next fence of the process, which waits for the latency as well:
//! so the clock is not read for each of them.
//!
//! Not played are caches (each read is taken to miss them), the 256 bytes that real modules write at least, and
//! the interference of reads and writes there.

use super::channel::{BACKLOG_NS_MAX, CHANNELS_BYTES, Channels, take, transfer_ns};
use crate::error::MediaError;
use cuesta_format::emulation::Profile;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where in it is until when the channel is taken, of each direction: in nanoseconds of the machine's monotonic clock.
const READ_OFFSET: u64 = 0;
const WRITE_OFFSET: u64 = 64;

/// Writes this long are timed by themselves: to look at the clock twice takes 50 ns, and to copy so much takes as long.
const TIMED_BYTES_MIN: usize = 1024;

/// What this process keeps of a medium that is played.
#[derive(Debug)]
pub struct Emulated {
    profile: Profile,
    channels: Channels,
    /// Bytes of short writes that no fence has paid for yet. Another thread's may pay: the sum is right.
    unpaid_bytes: AtomicU64,
    /// How much longer a wait takes than until its deadline, of what looking at the clock takes.
    late_ns: u64,
}

pub(super) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Looks at the clock from which its cost is known.
const CLOCK_LOOKS: usize = 32;

/// The time of one and a half looks at the clock: an access begins half a look before its time is known, the wait
/// ends half a look late in the mean, and half a look later the caller goes on.
fn late_ns() -> u64 {
    let look_ns = || {
        let began_ns = now_ns();
        now_ns() - began_ns
    };
    (0..CLOCK_LOOKS).map(|_| look_ns()).min().unwrap_or_default() * 3 / 2
}

impl Emulated {
    /// One whose channels others may share: they are in `channels`, which holds [`CHANNELS_BYTES`].
    pub fn new(profile: Profile, channels: impl AsFd) -> Result<Arc<Emulated>, MediaError> {
        let channels = Channels::of_file(channels)?;
        let unpaid_bytes = AtomicU64::new(0);
        Ok(Arc::new(Emulated { profile, channels, unpaid_bytes, late_ns: late_ns() }))
    }

    /// Memory for the channels, for the processes that share them.
    pub fn make_channels() -> Result<OwnedFd, MediaError> {
        let file = memfd_create("cuesta-channels", MemfdFlags::CLOEXEC)
            .map_err(MediaError::system("make channels"))?;
        rustix::fs::ftruncate(&file, CHANNELS_BYTES).map_err(MediaError::system("make channels"))?;
        Ok(file)
    }

    /// The profile that is played.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    fn wait_until(&self, deadline_ns: u64) {
        let deadline_ns = deadline_ns.saturating_sub(self.late_ns);
        while now_ns() < deadline_ns {}
    }

    /// When an access that began at `began_ns` is over, as far as its bytes go.
    fn transferred_ns(&self, offset: u64, began_ns: u64, bytes: u64, mb_s: u64) -> u64 {
        if mb_s == 0 || bytes == 0 {
            return began_ns;
        }
        take(self.channels.word(offset), began_ns, transfer_ns(bytes, mb_s), BACKLOG_NS_MAX)
    }

    fn read_deadline_ns(&self, began_ns: u64, bytes: u64) -> u64 {
        let Profile { read_ns, read_mb_s, .. } = self.profile;
        self.transferred_ns(READ_OFFSET, began_ns, bytes, read_mb_s).max(began_ns.saturating_add(read_ns))
    }

    fn write_deadline_ns(&self, began_ns: u64, bytes: u64) -> u64 {
        self.transferred_ns(WRITE_OFFSET, began_ns, bytes, self.profile.write_mb_s)
    }

    fn fence_deadline_ns(&self, began_ns: u64) -> u64 {
        let bytes = self.unpaid_bytes.swap(0, Ordering::Relaxed);
        self.write_deadline_ns(began_ns, bytes).max(began_ns.saturating_add(self.profile.write_ns))
    }

    /// Reads `len` bytes by `copy`, which says how many it could not.
    #[cold]
    #[inline(never)]
    pub fn read(&self, len: usize, copy: impl FnOnce() -> usize) -> usize {
        let began_ns = now_ns();
        let left = copy();
        self.wait_until(self.read_deadline_ns(began_ns, (len - left) as u64));
        left
    }

    /// The same for a write that a fence follows.
    #[cold]
    #[inline(never)]
    pub(crate) fn write(&self, len: usize, copy: impl FnOnce() -> usize) -> usize {
        if len < TIMED_BYTES_MIN {
            let left = copy();
            self.owe(len - left);
            return left;
        }
        let began_ns = now_ns();
        let left = copy();
        self.wait_until(self.write_deadline_ns(began_ns, (len - left) as u64));
        left
    }

    /// The same for a write by a call, which is long.
    pub fn write_by_call<T>(&self, len: usize, write: impl FnOnce() -> T) -> T {
        let began_ns = now_ns();
        let written = write();
        self.wait_until(self.write_deadline_ns(began_ns, len as u64));
        written
    }

    /// Has the next fence pay for bytes that were written.
    #[cold]
    pub(crate) fn owe(&self, bytes: usize) {
        self.unpaid_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Makes by `fence` what was written durable.
    #[cold]
    #[inline(never)]
    pub(crate) fn fence(&self, fence: impl FnOnce()) {
        let began_ns = now_ns();
        fence();
        self.wait_until(self.fence_deadline_ns(began_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mapping;
    use cuesta_format::Medium;

    const PROFILE: Profile = Profile { read_ns: 300, write_ns: 90, read_mb_s: 1000, write_mb_s: 500 };

    fn played(profile: Profile) -> Arc<Emulated> {
        Emulated::new(profile, Emulated::make_channels().unwrap()).unwrap()
    }

    #[test]
    fn a_read_waits_for_its_bytes_and_for_the_latency() {
        let emulated = played(PROFILE);
        assert_eq!(emulated.read_deadline_ns(10_000, 64), 10_300);
        // The channel is free at 10,064; the read before this one takes it then.
        assert_eq!(emulated.read_deadline_ns(10_000, 1000), 11_064);
        assert_eq!(emulated.read_deadline_ns(20_000, 1000), 21_000);
        assert_eq!(emulated.write_deadline_ns(20_000, 1000), 22_000, "directions share nothing");
    }

    #[test]
    fn a_fence_pays_for_the_short_writes_before_it_once() {
        let emulated = played(PROFILE);
        assert_eq!(emulated.write(100, || 40), 40);
        assert_eq!(emulated.write(200, || 0), 0);
        emulated.owe(40);
        assert_eq!(emulated.fence_deadline_ns(10_000), 10_000 + (60 + 200 + 40) * 2);
        assert_eq!(emulated.fence_deadline_ns(20_000), 20_000 + 90);
    }

    #[test]
    fn a_long_write_pays_by_itself() {
        let emulated = played(PROFILE);
        let began_ns = now_ns();
        assert_eq!(emulated.write(2048, || 0), 0);
        assert!(emulated.write_deadline_ns(began_ns, 500) >= began_ns + 4096 + 1000);
        assert_eq!(emulated.fence_deadline_ns(u64::MAX / 2), u64::MAX / 2 + 90);
    }

    #[test]
    fn processes_share_a_channel() {
        let file = Emulated::make_channels().unwrap();
        let [one, other] = [(); 2].map(|()| Emulated::new(PROFILE, &file).unwrap());
        assert_eq!(one.write_deadline_ns(10_000, 500), 11_000);
        assert_eq!(other.write_deadline_ns(10_000, 500), 12_000);
    }

    #[test]
    fn accesses_of_emulated_memory_are_charged_and_others_are_not() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let make = |name| Mapping::create(&folder.path().join(name), 8192, Medium::Memory, true).unwrap();
        let (emulated, memory, other) = (played(PROFILE), make("played"), make("other"));
        memory.emulate(&emulated);
        let unpaid = || emulated.unpaid_bytes.load(Ordering::Relaxed);
        let is_used = |offset| emulated.channels.word(offset).swap(0, Ordering::Relaxed) != 0;
        for (memory, is_played) in [(&other, false), (&memory, true)] {
            memory.write_through(0, &[1; 100]).unwrap();
            memory.write(200, &[1; 50]).unwrap();
            memory.flush(200, 50).unwrap();
            let mut sum = cuesta_format::entry::Crc32c::new();
            memory.write_user_summed(300, [1; 7].as_slice().into(), &mut sum).unwrap();
            assert_eq!(unpaid(), if is_played { 157 } else { 0 });
            memory.fence().unwrap();
            assert_eq!((unpaid(), is_used(WRITE_OFFSET)), (0, is_played));
            memory.write_through(0, &[1; 4096]).unwrap();
            assert_eq!(is_used(WRITE_OFFSET), is_played);
            memory.read(0, &mut [0; 10]).unwrap();
            assert_eq!(is_used(READ_OFFSET), is_played);
            memory.read_user(0, [0; 10].as_mut_slice().into()).unwrap();
            assert_eq!(is_used(READ_OFFSET), is_played);
        }
    }

    #[test]
    fn what_is_not_asked_for_is_not_waited_for() {
        let emulated = played(Profile { read_ns: 5, ..Profile::default() });
        assert_eq!(emulated.read_deadline_ns(10_000, 1 << 20), 10_005);
        assert_eq!(emulated.write_deadline_ns(10_000, 1 << 20), 10_000);
        emulated.owe(100);
        assert_eq!(emulated.fence_deadline_ns(10_000), 10_000);
    }
}
