//! An intercepted call, as the entry code leaves it on the stack and finds it there again.

use crate::call::filter::{FOUND_NOTHING_BIT, TRY_KERNEL_BIT};

/// The registers of an intercepted call, as `cuesta_entry` pushes them.
#[derive(Debug)]
#[repr(C)]
pub struct Frame {
    saved: [usize; 2],
    sixth: usize,
    fifth: usize,
    fourth: usize,
    third: usize,
    second: usize,
    first: usize,
    number_or_answer: usize,
    resume: usize,
}

/// Length of the `syscall` instruction, to step over one that was served.
pub(super) const SYSCALL_BYTES: usize = 2;

impl Frame {
    /// A frame for a call that came by symbol, not through a patched site.
    pub fn new(number: usize, arguments: [usize; 6]) -> Self {
        let [first, second, third, fourth, fifth, sixth] = arguments;
        Self {
            saved: [0; 2],
            sixth,
            fifth,
            fourth,
            third,
            second,
            first,
            number_or_answer: number,
            resume: 0,
        }
    }

    /// The system call's number.
    pub fn number(&self) -> usize {
        self.number_or_answer & !(1 << FOUND_NOTHING_BIT)
    }

    /// Whether it is on a path where the kernel has found nothing.
    pub fn found_nothing(&self) -> bool {
        self.number_or_answer >> FOUND_NOTHING_BIT & 1 != 0
    }

    /// The call is on a path, and not ours: the kernel's answer decides whether it is looked at again.
    pub fn try_kernel(&mut self) {
        self.number_or_answer = self.number() | 1 << TRY_KERNEL_BIT;
    }

    /// Its six arguments.
    pub fn arguments(&self) -> [usize; 6] {
        [self.first, self.second, self.third, self.fourth, self.fifth, self.sixth]
    }

    /// Marks the call served, with the kernel-style answer (a negative errno for an error).
    pub fn answer(&mut self, answer: isize) {
        self.number_or_answer = answer as usize;
        self.resume += SYSCALL_BYTES;
    }

    /// Whether the call came by symbol and is not answered: if it is the kernel's, it comes again, through a patched site.
    pub fn comes_again(&self) -> bool {
        self.resume == 0
    }

    /// The answer of a frame made with [`Frame::new`], if it was served.
    pub fn answered(&self) -> Option<isize> {
        (self.resume != 0).then_some(self.number_or_answer as isize)
    }
}
