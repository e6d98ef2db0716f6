//! loom's atomics, with orderings that can be weakened, and a switch of threads possible before each step.
//!
//! loom by itself tries a switch only before a step that conflicts with the *last* one another thread made on the same
//! object, and so overlooks some: a load is forgotten once the thread that stores has looked first, too. So each step
//! counts in one word, on which all steps conflict. The count is relaxed: it puts nothing in order.

use loom::sync::atomic;
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

pub use loom::sync::atomic::Ordering;

use crate::mistake::weakened;

thread_local! {
    /// All threads of a model are run by one.
    static STEPS: RefCell<Option<Rc<atomic::AtomicU32>>> = const { RefCell::new(None) };
}

/// Runs a model once, counting its steps.
pub(crate) fn counting(model: impl FnOnce()) {
    STEPS.with_borrow_mut(|steps| *steps = Some(Rc::new(atomic::AtomicU32::new(0))));
    model();
    drop(STEPS.take());
}

pub(crate) fn step() {
    let steps = STEPS.with_borrow(Clone::clone);
    if let Some(steps) = steps {
        steps.fetch_add(1, Ordering::Relaxed);
    }
}

/// A fence. An asymmetric pair (a compiler's fence here, a barrier put into every thread there) is two of these,
/// sequentially consistent ones: that is what it is worth between a thread of the one kind and one of the other.
#[track_caller]
pub fn fence(order: Ordering) {
    atomic::fence(weakened(order, Location::caller(), "fence"));
}

macro_rules! common {
    ($value:ty) => {
        #[track_caller]
        pub fn load(&self, order: Ordering) -> $value {
            step();
            self.0.load(weakened(order, Location::caller(), "load"))
        }
        #[track_caller]
        pub fn store(&self, value: $value, order: Ordering) {
            step();
            self.0.store(value, weakened(order, Location::caller(), "store"));
        }
        #[track_caller]
        pub fn swap(&self, value: $value, order: Ordering) -> $value {
            step();
            self.0.swap(value, weakened(order, Location::caller(), "swap"))
        }
        #[track_caller]
        pub fn compare_exchange(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            step();
            let success = weakened(success, Location::caller(), "exchange");
            self.0.compare_exchange(
                current,
                new,
                success,
                weakened(failure, Location::caller(), "no exchange"),
            )
        }
        #[track_caller]
        pub fn compare_exchange_weak(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            self.compare_exchange(current, new, success, failure)
        }
    };
}

macro_rules! integer {
    ($name:ident, $loom:ty, $value:ty) => {
        #[doc = concat!("Stands in for `std`'s `", stringify!($name), "`.")]
        #[derive(Debug)]
        pub struct $name($loom);

        #[allow(missing_docs, reason = "as in `std`")]
        impl $name {
            pub fn new(value: $value) -> Self {
                Self(<$loom>::new(value))
            }
            common!($value);
            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_add(value, weakened(order, Location::caller(), "add"))
            }
            #[track_caller]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_sub(value, weakened(order, Location::caller(), "subtract"))
            }
            #[track_caller]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_max(value, weakened(order, Location::caller(), "maximum"))
            }
        }
    };
}

integer!(AtomicU32, atomic::AtomicU32, u32);

impl AtomicU32 {
    /// With orderings that are not weakened.
    pub(crate) fn exchange_exactly(&self, current: u32, new: u32) -> bool {
        step();
        self.0.compare_exchange(current, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// As above.
    pub(crate) fn store_exactly(&self, value: u32) {
        step();
        self.0.store(value, Ordering::Release);
    }
}

integer!(AtomicU64, atomic::AtomicU64, u64);

/// Stands in for `std`'s `AtomicPtr`.
#[derive(Debug)]
pub struct AtomicPtr<T>(atomic::AtomicPtr<T>);

#[allow(missing_docs, reason = "as in `std`")]
impl<T> AtomicPtr<T> {
    pub fn new(value: *mut T) -> Self {
        Self(atomic::AtomicPtr::new(value))
    }
    common!(*mut T);
}
