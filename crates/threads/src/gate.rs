//! A gate that is hardly ever closed: while it is, no other thread is inside.
//!
//! Only the closing thread pays for it. A thread says that it is inside, then looks at the gate; the closing thread
//! has the kernel put a barrier into every thread, then looks which threads are inside. So one of the two sees the other.

use std::ptr;
use std::sync::PoisonError;

use crate::sync::{
    AtomicPtr, AtomicU32, Futex, Mutex, MutexGuard, Ordering, TryLockError, constant, heavy_barrier,
    light_barrier, mistake, yield_now,
};

const OPEN: u32 = 0;
const CLOSED: u32 = 1;

/// Whether one thread is inside: non-zero. Only that thread changes it.
#[derive(Debug)]
#[repr(transparent)]
pub struct Inside(AtomicU32);

/// The gate, and the threads it waits for.
#[derive(Debug)]
pub struct Gate {
    state: Futex,
    members: Mutex<Vec<Member>>,
    /// The thread that closed it for good, if one has.
    shut_by: AtomicPtr<Inside>,
}

/// A thread that can be inside. Its flag lives until it resigns.
#[derive(Debug)]
struct Member(*const Inside);

// SAFETY: the flag is an atomic.
unsafe impl Send for Member {}

/// The gate while it is closed. Opens it when dropped, unless it is shut for good.
#[derive(Debug)]
#[must_use]
pub struct Closed<'g> {
    gate: &'g Gate,
    /// None if it is shut for good.
    members: Option<MutexGuard<'g, Vec<Member>>>,
}

impl Inside {
    constant! {
        /// A thread that is outside.
        pub const fn outside() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Whether the calling thread, which has this flag, is inside.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// The calling thread is outside; a thread that closes the gate sees what it did inside.
    #[inline(always)]
    pub fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    #[inline(always)]
    fn set(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    fn is_set_elsewhere(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }
}

impl Gate {
    constant! {
        /// An open gate.
        #[allow(clippy::new_without_default, reason = "made where a constant is needed")]
        pub const fn new() -> Self {
            Self { state: Futex::new(OPEN), members: Mutex::new(Vec::new()), shut_by: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// The calling thread goes inside, as soon as the gate is open. To wait it goes out again by `leave`, which clears the
    /// flag and may run handlers that come here themselves.
    #[inline(always)]
    pub fn enter(&self, inside: &Inside, leave: impl Fn()) {
        inside.set();
        light_barrier();
        if self.is_closed() {
            self.enter_later(inside, leave);
        }
    }

    #[cold]
    fn enter_later(&self, inside: &Inside, leave: impl Fn()) {
        while self.is_closed() && !self.is_shut_by(inside) {
            leave();
            self.state.wait(CLOSED);
            inside.set();
            light_barrier();
        }
    }

    #[inline(always)]
    fn is_closed(&self) -> bool {
        // A thread that enters sees what was done while the gate was closed.
        self.state.load(Ordering::Acquire) != OPEN
    }

    /// A handler of the thread that ends the process may still come here.
    fn is_shut_by(&self, me: &Inside) -> bool {
        ptr::eq(self.shut_by.load(Ordering::Relaxed), me) && !mistake("letting pass who shut the gate")
    }

    /// From now on a thread that closes the gate waits for the thread with this flag.
    ///
    /// # Safety
    /// The flag lives until it is given to [`Gate::resign`].
    pub unsafe fn join(&self, inside: *const Inside) {
        if let Ok(mut members) = self.members.lock() {
            members.push(Member(inside));
        }
    }

    /// The thread with this flag ends.
    pub fn resign(&self, inside: *const Inside) {
        if let Ok(mut members) = self.members.lock() {
            members.retain(|member| member.0 != inside);
        }
    }

    /// Closes the gate and waits until no thread is inside but the calling one, `me`, or until `is_patient` says no. If
    /// another closes it, too, and waits for this thread, it lets that one go first, outside, by `leave`.
    pub fn close(&self, me: &Inside, leave: impl Fn(), mut is_patient: impl FnMut() -> bool) -> Closed<'_> {
        if self.is_shut_by(me) {
            return Closed { gate: self, members: None };
        }
        let members = loop {
            match self.members.try_lock() {
                Ok(members) => break members,
                Err(TryLockError::Poisoned(poisoned)) => break PoisonError::into_inner(poisoned),
                Err(TryLockError::WouldBlock) => {
                    leave();
                    yield_now();
                    self.enter(me, &leave);
                }
            }
        };
        let is_other = |member: &&Member| !ptr::eq(member.0, me);
        if members.iter().any(|member| is_other(&member)) {
            self.state.store(CLOSED, Ordering::Relaxed);
            heavy_barrier();
            for member in members.iter().filter(is_other) {
                // SAFETY: a member's flag lives until it resigns, for which it needs the lock held here.
                while unsafe { &*member.0 }.is_set_elsewhere()
                    && !mistake("waiting for those inside")
                    && is_patient()
                {
                    yield_now();
                }
            }
        }
        Closed { gate: self, members: Some(members) }
    }
}

impl Closed<'_> {
    /// This is the child of a fork: only the thread with this flag is left.
    pub fn forget_others(&mut self, me: *const Inside) {
        if let Some(members) = &mut self.members {
            members.retain(|member| member.0 == me);
        }
    }

    /// Keeps the gate closed for good, but for the thread with this flag, which closed it.
    pub fn shut(mut self, me: &Inside) {
        self.gate.shut_by.store(ptr::from_ref(me).cast_mut(), Ordering::Relaxed);
        // No other thread can close it any more, and so none can open it.
        std::mem::forget(self.members.take());
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        if self.members.is_none() {
            return;
        }
        self.gate.state.store(OPEN, Ordering::Release);
        if !mistake("waking who waits at the gate") {
            self.gate.state.wake_all();
        }
    }
}
