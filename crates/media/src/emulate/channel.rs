//! A channel that bytes go over one behind the other: one word, which says until when it is taken.
//!
//! It moves by compare and exchange, so nobody waits for a process that was stopped or killed in the middle. Any session of
//! the store may write anything to it: what cannot be is taken for free, so that nobody waits long for it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A channel that is taken for longer is taken for broken: a write call's bytes need a sixth of that at most.
const BACKLOG_NS_MAX: u64 = 1_000_000_000;

/// How long bytes take.
pub(super) fn transfer_ns(bytes: u64, mb_s: u64) -> u64 {
    bytes.saturating_mul(1000).div_ceil(mb_s)
}

/// Takes the channel for `busy_ns`, from `began_ns` on or when it is free; says until when.
pub(super) fn take(free_ns: &AtomicU64, began_ns: u64, busy_ns: u64) -> u64 {
    let mut free = free_ns.load(Ordering::Relaxed);
    loop {
        let is_broken = free > began_ns.saturating_add(BACKLOG_NS_MAX);
        let from_ns = if is_broken { began_ns } else { free.max(began_ns) };
        let until_ns = from_ns.saturating_add(busy_ns);
        match free_ns.compare_exchange_weak(free, until_ns, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return until_ns,
            Err(found) => free = found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_what_the_bandwidth_says() {
        assert_eq!(transfer_ns(4096, 1000), 4096);
        assert_eq!(transfer_ns(64, 32_000), 2);
        assert_eq!(transfer_ns(1, 32_000), 1);
        assert_eq!(transfer_ns(16 << 20, 100), 167_772_160);
    }

    #[test]
    fn who_comes_later_waits_for_who_came_before_and_nobody_for_nonsense() {
        let free = AtomicU64::new(0);
        assert_eq!(take(&free, 100, 10), 110);
        assert_eq!(take(&free, 105, 10), 120);
        assert_eq!(take(&free, 200, 10), 210);
        free.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(take(&free, 300, 10), 310);
        free.store(300 + BACKLOG_NS_MAX, Ordering::Relaxed);
        assert_eq!(take(&free, 300, 10), 310 + BACKLOG_NS_MAX);
    }

    #[test]
    fn threads_lose_none_of_each_others_time() {
        let free = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..10_000).for_each(|_| _ = take(&free, 5, 3)));
            }
        });
        assert_eq!(free.into_inner(), 5 + 2 * 10_000 * 3);
    }
}
