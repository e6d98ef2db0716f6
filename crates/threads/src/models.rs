//! The table, the gate and the lock under a model checker.
//!
//! | model | what holds |
//! |---|---|
//! | `a_pin_is_of_the_file_that_the_number_had` | while a number's file is closed and its place reused for another number's, no look-up of the first finds the second |
//! | `the_last_of_several_closes_drops` | a file with two numbers, closed by two threads while a third uses it, is dropped once, after all |
//! | `a_freed_number_has_no_file` | a thread that gets a number from the kernel which another thread gave back does not find that one's file |
//! | `close_and_replace_agree_with_the_kernel` | of close and dup2 on one number one comes first, here and in the kernel |
//! | `of_two_replacements_one_stays` | two dup2 onto one number: one file stays, the others lose their references |
//! | `a_new_file_is_whole`, `a_closing_thread_need_not_have_looked` | one thread opens, another looks up or closes |
//! | `a_turn_may_change_nothing` | a change that the kernel refused |
//! | `no_thread_is_inside_a_closed_gate` | work done while it is closed overlaps with no work inside, and the next thread sees it, and wakes |
//! | `it_may_close_again_at_once` | a thread that one opening let in meets the next closing |
//! | `the_thread_that_shuts_it_may_pass` | the thread that ends the process, with the gate shut behind everybody |
//! | `two_closing_threads_go_one_after_the_other` | two threads inside that close it do not wait for each other |
//! | `a_handler_enters_while_its_thread_waits` | a signal's handler that comes here from a thread on its way in |
//! | `members_come_and_go` | a thread that begins and ends while the gate is closed |
//! | `a_lock_is_held_by_one` | the generation lock excludes, and no thread sleeps on |
//!
//! [`every_ordering_and_check_is_needed`] makes each ordering weaker and leaves out each named check: the second look of a
//! look-up, taking a file away before the kernel frees its number, taking turns, waiting for those inside, both wake-ups,
//! both halves of the gate's barrier. All of it is noticed.

use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use cuesta_model::{Arc, Mutex, Racy, explore, thread, unnoticed_mistakes};

use crate::{Gate, GenerationLock, Inside, Pin, Pool, Table};

const NUMBERS: usize = 3;

/// The file behind a number in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernels {
    Nothing,
    Placeholder,
    Foreign,
}

/// A file of the store.
struct File {
    name: char,
    content: Racy<u32>,
    world: std::sync::Weak<Counts>,
}

#[derive(Default)]
struct Counts {
    opened: AtomicUsize,
    dropped: AtomicUsize,
}

impl File {
    fn use_it(&self) {
        // SAFETY: the model checks that it was not dropped before.
        assert_eq!(self.content.with(|content| unsafe { *content }), 1);
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the model checks that no thread uses it any more.
        self.content.with_mut(|content| unsafe { *content = 0 });
        if let Some(counts) = self.world.upgrade() {
            counts.dropped.fetch_add(1, SeqCst);
        }
    }
}

/// A program's files. The kernel's table has a lock of its own, as in the kernel.
struct World {
    table: Table<File, NUMBERS>,
    kernel: Mutex<[Kernels; NUMBERS]>,
    pool: &'static Pool<File>,
    counts: std::sync::Arc<Counts>,
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            table: Table::new(),
            kernel: Mutex::new([Kernels::Nothing; NUMBERS]),
            pool: Box::leak(Box::new(Pool::new())),
            counts: std::sync::Arc::default(),
        })
    }

    fn file(&self, name: char) -> Pin<File> {
        self.counts.opened.fetch_add(1, SeqCst);
        let world = std::sync::Arc::downgrade(&self.counts);
        self.pool.pin(File { name, content: Racy::new(1), world })
    }

    fn set(&self, number: usize, to: Kernels) {
        self.kernel.lock().unwrap()[number] = to;
    }

    /// The lowest number that is free.
    fn allocate(&self, what: Kernels) -> Option<usize> {
        let mut kernel = self.kernel.lock().unwrap();
        let number = kernel.iter().position(|held| *held == Kernels::Nothing)?;
        kernel[number] = what;
        Some(number)
    }

    fn open(&self, name: char) -> usize {
        let file = self.file(name);
        let number = self.allocate(Kernels::Placeholder).unwrap();
        drop(self.table.turn(number).unwrap().finish(Some(file)));
        number
    }

    fn close(&self, number: usize) {
        let turn = self.table.turn(number).unwrap();
        if turn.is_taken() {
            drop(turn.close(|| self.set(number, Kernels::Nothing)));
        } else {
            self.set(number, Kernels::Nothing);
        }
    }

    /// dup2 of a file of ours.
    fn replace(&self, number: usize, with: Pin<File>) {
        let turn = self.table.turn(number).unwrap();
        self.set(number, Kernels::Placeholder);
        drop(turn.finish(Some(with)));
    }

    fn name_of(&self, number: usize) -> Option<char> {
        self.table.pin(number).map(|pin| {
            pin.use_it();
            pin.name
        })
    }

    fn dropped(&self) -> usize {
        self.counts.dropped.load(SeqCst)
    }

    /// Closes all that is left, and checks that every file that was opened is gone, and that what is behind a number here is so
    /// in the kernel.
    fn end(&self) {
        for (number, held) in self.kernel.lock().unwrap().into_iter().enumerate() {
            let is_ours = self.name_of(number).is_some();
            assert_eq!(is_ours, held == Kernels::Placeholder, "number {number} is {held:?}");
            drop(self.table.turn(number).unwrap().finish(None));
        }
        assert_eq!(self.dropped(), self.counts.opened.load(SeqCst), "files were not dropped, or twice");
    }
}

/// Runs `act` in a thread of its own.
fn aside<T: Send + 'static>(
    world: &Arc<World>,
    act: impl FnOnce(&World) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let world = world.clone();
    thread::spawn(move || act(&world))
}

#[test]
fn a_pin_is_of_the_file_that_the_number_had() {
    explore("a_pin_is_of_the_file_that_the_number_had", || {
        let world = World::new();
        assert_eq!(world.open('a'), 0);
        let other = aside(&world, |world| {
            // Keeps number 0, so that the next file lies in the first one's place, behind another number.
            drop(world.table.turn(0).unwrap().finish(None));
            world.open('b')
        });
        assert!(matches!(world.name_of(0), None | Some('a')));
        assert_eq!(other.join().unwrap(), 1);
        world.set(0, Kernels::Nothing);
        world.end();
    });
}

#[test]
fn the_last_of_several_closes_drops() {
    explore("the_last_of_several_closes_drops", || {
        let world = World::new();
        let first = world.open('a');
        let again = world.allocate(Kernels::Placeholder).unwrap();
        world.replace(again, world.table.pin(first).unwrap());
        let closers = [first, again].map(|number| aside(&world, move |world| world.close(number)));
        if let Some(pin) = world.table.pin(first) {
            pin.clone().use_it();
            assert_eq!(world.dropped(), 0);
            pin.use_it();
        }
        closers.into_iter().for_each(|closer| closer.join().unwrap());
        assert_eq!(world.dropped(), 1);
        world.end();
    });
}

#[test]
fn a_freed_number_has_no_file() {
    explore("a_freed_number_has_no_file", || {
        let world = World::new();
        let first = world.open('a');
        world.allocate(Kernels::Foreign).unwrap();
        world.allocate(Kernels::Foreign).unwrap();
        let closer = aside(&world, move |world| world.close(first));
        if let Some(number) = world.allocate(Kernels::Foreign) {
            assert_eq!(world.name_of(number), None, "a file of the store behind a number that is not ours");
        }
        closer.join().unwrap();
        world.end();
    });
}

#[test]
fn close_and_replace_agree_with_the_kernel() {
    explore("close_and_replace_agree_with_the_kernel", || {
        let world = World::new();
        let (first, second) = (world.open('a'), world.open('b'));
        let closer = aside(&world, move |world| world.close(first));
        world.replace(first, world.table.pin(second).unwrap());
        closer.join().unwrap();
        assert!(matches!(world.name_of(first), None | Some('b')));
        world.end();
    });
}

#[test]
fn a_new_file_is_whole() {
    explore("a_new_file_is_whole", || {
        let world = World::new();
        let opener = aside(&world, |world| assert_eq!(world.open('a'), 0));
        assert!(matches!(world.name_of(0), None | Some('a')));
        opener.join().unwrap();
        world.end();
    });
}

/// dup2 onto a number of ours that the kernel refuses; and a close by a thread that did not open.
#[test]
fn a_turn_may_change_nothing() {
    explore("a_turn_may_change_nothing", || {
        let world = World::new();
        let opener = aside(&world, |world| assert_eq!(world.open('a'), 0));
        let refused = aside(&world, |world| drop(world.table.turn(0)));
        if world.name_of(0).is_some() {
            world.close(0);
        }
        opener.join().unwrap();
        refused.join().unwrap();
        world.end();
    });
}

/// Room for a file is made by one thread, and given back by another that knows only the number.
#[test]
fn a_closing_thread_need_not_have_looked() {
    explore("a_closing_thread_need_not_have_looked", || {
        let world = World::new();
        let opener = aside(&world, |world| assert_eq!(world.open('a'), 0));
        let turn = world.table.turn(0).unwrap();
        if turn.is_taken() {
            drop(turn.close(|| world.set(0, Kernels::Nothing)));
        } else {
            drop(turn);
        }
        opener.join().unwrap();
        world.end();
    });
}

#[test]
fn of_two_replacements_one_stays() {
    explore("of_two_replacements_one_stays", || {
        let world = World::new();
        let number = world.open('a');
        let (one, other) = (world.file('b'), world.file('c'));
        let other = aside(&world, move |world| {
            world.replace(number, other);
            assert!(world.name_of(number).is_some(), "there was a file all the time");
        });
        world.replace(number, one);
        other.join().unwrap();
        assert!(matches!(world.name_of(number), Some('b' | 'c')));
        assert_eq!(world.dropped(), 2);
        world.end();
    });
}

/// A gate and what it guards: a number that threads change inside, one at a time by a lock, or with the gate closed.
struct Gated {
    gate: Gate,
    within: Mutex<()>,
    guarded: Racy<u32>,
    flags: [Inside; 3],
}

impl Gated {
    /// With the first two threads as members.
    fn new() -> Arc<Gated> {
        let gated = Arc::new(Gated {
            gate: Gate::new(),
            within: Mutex::new(()),
            guarded: Racy::new(0),
            flags: std::array::from_fn(|_| Inside::outside()),
        });
        for flag in &gated.flags[..2] {
            // SAFETY: the flags live as long as the gate.
            unsafe { gated.gate.join(flag) };
        }
        gated
    }

    fn enter(&self, thread: usize) {
        self.gate.enter(&self.flags[thread], || self.flags[thread].clear());
    }

    fn add(&self) -> u32 {
        // SAFETY: the model checks that no two threads do this at once.
        self.guarded.with_mut(|number| unsafe {
            *number += 1;
            *number
        })
    }

    /// A call of the store: goes inside, changes something, leaves.
    fn call(&self, thread: usize) {
        self.enter(thread);
        let within = self.within.lock().unwrap();
        self.add();
        drop(within);
        self.flags[thread].clear();
    }

    /// A call that closes the gate, as a fork does. It does not ask for the lock: no thread is inside.
    fn close(&self, thread: usize) {
        self.enter(thread);
        let flag = &self.flags[thread];
        let closed = self.gate.close(flag, || flag.clear(), || true);
        self.add();
        drop(closed);
        flag.clear();
    }

    fn count(&self) -> u32 {
        // SAFETY: all threads have ended.
        self.guarded.with(|number| unsafe { *number })
    }
}

fn beside(gated: &Arc<Gated>, act: impl FnOnce(&Gated) + Send + 'static) -> thread::JoinHandle<()> {
    let gated = gated.clone();
    thread::spawn(move || act(&gated))
}

#[test]
fn no_thread_is_inside_a_closed_gate() {
    explore("no_thread_is_inside_a_closed_gate", || {
        let gated = Gated::new();
        let other = beside(&gated, |gated| gated.call(1));
        gated.close(0);
        other.join().unwrap();
        assert_eq!(gated.count(), 2);
    });
}

#[test]
fn it_may_close_again_at_once() {
    explore("it_may_close_again_at_once", || {
        let gated = Gated::new();
        let other = beside(&gated, |gated| gated.call(1));
        gated.close(0);
        gated.close(0);
        other.join().unwrap();
        assert_eq!(gated.count(), 3);
    });
}

/// A signal's handler in the thread that ends the process, after it let everybody else out.
#[test]
fn the_thread_that_shuts_it_may_pass() {
    explore("the_thread_that_shuts_it_may_pass", || {
        let gated = Gated::new();
        let other = beside(&gated, |gated| {
            gated.call(1);
            // Ends here: from now on it would wait for the process to end.
        });
        other.join().unwrap();
        let flag = &gated.flags[0];
        gated.enter(0);
        gated.gate.close(flag, || flag.clear(), || true).shut(flag);
        flag.clear();
        gated.call(0);
        gated.close(0);
        assert_eq!(gated.count(), 3);
    });
}

#[test]
fn two_closing_threads_go_one_after_the_other() {
    explore("two_closing_threads_go_one_after_the_other", || {
        let gated = Gated::new();
        let other = beside(&gated, |gated| gated.close(1));
        gated.close(0);
        other.join().unwrap();
        assert_eq!(gated.count(), 2);
    });
}

#[test]
fn a_handler_enters_while_its_thread_waits() {
    explore("a_handler_enters_while_its_thread_waits", || {
        let gated = Gated::new();
        let other = beside(&gated, |gated| {
            let flag = &gated.flags[1];
            let has_pending = Cell::new(true);
            gated.gate.enter(flag, || {
                flag.clear();
                if has_pending.replace(false) {
                    gated.call(1);
                }
            });
            gated.add();
            flag.clear();
        });
        gated.close(0);
        other.join().unwrap();
        assert!((2..=3).contains(&gated.count()));
    });
}

#[test]
fn members_come_and_go() {
    explore("members_come_and_go", || {
        let gated = Gated::new();
        let other = beside(&gated, |gated| {
            // SAFETY: the flag lives as long as the gate.
            unsafe { gated.gate.join(&gated.flags[2]) };
            gated.call(2);
            gated.gate.resign(&gated.flags[2]);
        });
        gated.close(0);
        other.join().unwrap();
        assert_eq!(gated.count(), 2);
    });
}

#[test]
fn a_lock_is_held_by_one() {
    explore("a_lock_is_held_by_one", || {
        let shared = Arc::new((GenerationLock::new(), Racy::new(0)));
        let add = |shared: &(GenerationLock, Racy<u32>)| {
            let _held = shared.0.hold();
            // SAFETY: under the lock, as the model checks.
            shared.1.with_mut(|number| unsafe { *number += 1 });
        };
        let others = [(); 2].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || add(&shared))
        });
        add(&shared);
        others.into_iter().for_each(|other| other.join().unwrap());
        let _held = shared.0.hold();
        // SAFETY: as above.
        assert_eq!(shared.1.with(|number| unsafe { *number }), 3);
    });
}

#[test]
fn every_ordering_and_check_is_needed() {
    let unnoticed = unnoticed_mistakes(&[
        ("models::a_pin_is_of_the_file_that_the_number_had", a_pin_is_of_the_file_that_the_number_had),
        ("models::the_last_of_several_closes_drops", the_last_of_several_closes_drops),
        ("models::a_freed_number_has_no_file", a_freed_number_has_no_file),
        ("models::close_and_replace_agree_with_the_kernel", close_and_replace_agree_with_the_kernel),
        ("models::of_two_replacements_one_stays", of_two_replacements_one_stays),
        ("models::a_new_file_is_whole", a_new_file_is_whole),
        ("models::a_closing_thread_need_not_have_looked", a_closing_thread_need_not_have_looked),
        ("models::a_turn_may_change_nothing", a_turn_may_change_nothing),
        ("models::no_thread_is_inside_a_closed_gate", no_thread_is_inside_a_closed_gate),
        ("models::it_may_close_again_at_once", it_may_close_again_at_once),
        ("models::the_thread_that_shuts_it_may_pass", the_thread_that_shuts_it_may_pass),
        ("models::two_closing_threads_go_one_after_the_other", two_closing_threads_go_one_after_the_other),
        ("models::a_handler_enters_while_its_thread_waits", a_handler_enters_while_its_thread_waits),
        ("models::members_come_and_go", members_come_and_go),
        ("models::a_lock_is_held_by_one", a_lock_is_held_by_one),
    ]);
    assert_eq!(unnoticed, Vec::<String>::new());
}
