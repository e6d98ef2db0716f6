//! What several processes share of a description: its offset and its flags.

use crate::call::Failure;
use crate::descriptors::cells::{self, Cell};
use crate::descriptors::description::{Description, Inherited, Shared};
use crate::descriptors::kernel;
use crate::store::{OpenFile, Token};
use rustix::fd::BorrowedFd;
use std::sync::atomic::Ordering;

impl Description {
    /// Runs a call that uses or moves the offset.
    #[inline]
    pub fn with_offset<T>(&self, call: impl FnOnce(&OpenFile) -> Result<T, Failure>) -> Result<T, Failure> {
        let file = self.file()?;
        loop {
            let Some(cell) = self.cell() else { return call(file) };
            let held = cell.hold();
            if cell.moved() != 0 {
                continue;
            }
            file.set_offset(held.offset());
            let answer = call(file);
            held.set_offset(file.offset());
            return answer;
        }
    }

    /// Moves the offset and the flags to where another process, which is about to come, can share them. Without room
    /// for them each process goes on with its own.
    pub fn share(&self) {
        self.move_to_cell();
        if let Some(cell) = self.cell() {
            cell.count_process();
        }
    }

    /// It is sent to other processes, under `number`, unless it was before; `keep` has it kept and answers its cell. Call
    /// when no other thread is inside. Answers the number it has now.
    pub fn pass(
        &self,
        number: u64,
        keep: impl FnOnce(&Inherited) -> Result<&'static Cell, Failure>,
    ) -> Result<u64, Failure> {
        let before = self.cell();
        if self.passed() != 0 {
            return Ok(self.passed());
        }
        let held = before.map(Cell::hold);
        if before.is_some_and(|cell| cell.moved() != 0) {
            drop(held);
            self.cell();
            return Ok(self.passed());
        }
        let cell = keep(&self.without_offset())?;
        match held {
            Some(held) => held.move_to(cell, number),
            // SAFETY: the file is only read.
            None => cell.fill(self.last_offset(), self.last_flags(unsafe { &*self.file.get() })),
        }
        self.cell.store(std::ptr::from_ref(cell).cast_mut(), Ordering::Release);
        self.passed.store(number, Ordering::Release);
        if let Some(before) = before {
            before.discount_process();
        }
        Ok(number)
    }

    fn move_to_cell(&self) {
        if self.own_cell().is_some() || self.passed() != 0 || self.token().is_some() {
            return;
        }
        let Some(cell) = cells::take() else { return };
        cell.hold().set_offset(self.last_offset());
        // SAFETY: as in `Description::file`; a file of an older generation is only read.
        cell.set_flags(self.last_flags(unsafe { &*self.file.get() }));
        let shared = std::ptr::from_ref(cell).cast_mut();
        let first =
            self.cell.compare_exchange(std::ptr::null_mut(), shared, Ordering::AcqRel, Ordering::Relaxed);
        if first.is_err() {
            cell.discount_process();
        }
    }

    /// This process is about to become another user's: SharedFS keeps the file for it, as `bridge`, which was made
    /// before, asks, with the `locks` on this descriptor. Answers the descriptor that stands for it from then on, if it does not
    /// have one already. Call when no other thread is inside.
    pub fn hand_over(&self, bridge: &cuesta_served::Client, locks: Option<BorrowedFd<'_>>) -> Option<i32> {
        // One that was sent is with SharedFS under its number, and not for other users.
        if self.token().is_some() || self.passed() != 0 {
            return None;
        }
        // SAFETY: the file is only read.
        let flags = self.last_flags(unsafe { &*self.file.get() }) as i32;
        let cell = self.cell();
        // Others may go on with the offset there: then SharedFS does, too.
        let shared = match cell {
            Some(cell) => Some((cells::file()?, cells::place_of(cell)?)),
            None => None,
        };
        let inode = cuesta_format::InodeNumber(self.inode);
        let shared = shared.map(|(file, place)| (kernel::borrow(file), place));
        let token = bridge.adopt(inode, flags, self.last_offset(), shared, locks).ok()?;
        if let Some(cell) = cell {
            cell.discount_process();
        }
        self.cell.store(std::ptr::null_mut(), Ordering::Release);
        self.passed.store(0, Ordering::Release);
        let token = Token::new(token).into_number();
        self.token.store(token, Ordering::Release);
        Some(token)
    }

    /// What to hand over at exec. The next program counts for this process, unless this is a vfork child,
    /// because its parent goes on.
    pub fn to_inherit(&self) -> Inherited {
        if crate::thread::is_vforked() {
            self.share();
        } else {
            self.move_to_cell();
        }
        // SAFETY: the file is only read.
        let offset = match unsafe { &*self.file.get() } {
            // A thread of a process this one was forked from may have been moving it; there is a cell then.
            Some(file) => file.offset_before_fork(),
            None => self.offset.load(Ordering::Relaxed),
        };
        let shared = match self.passed() {
            _ if self.token().is_some() => self.token().map(Shared::Served),
            0 => self.own_cell().map(|cell| Shared::Cell(cells::index_of(cell))),
            number => Some(Shared::Passed(number)),
        };
        Inherited { offset, shared, ..self.without_offset() }
    }

    /// Where a process that has no part in this memory finds the offset, if it is shared, and the offset. The parent of a
    /// vfork child shares it from now on. Call when no other thread is inside.
    pub fn to_share(&self) -> (Option<Shared>, u64) {
        if crate::thread::is_vforked() {
            self.move_to_cell();
        }
        let cell = self.cell();
        let shared = match self.passed() {
            0 => cell.map(|cell| Shared::Cell(cells::index_of(cell))),
            number => Some(Shared::Passed(number)),
        };
        (shared, cell.map_or_else(|| self.last_offset(), |cell| cell.hold().offset()))
    }
}
