//! The log's account under a model checker: admission, places, completion, and room that is used again.
//!
//! The log here is a few cells, one per entry, each the bytes at its place modulo the ring. That a cell is read or written by two
//! threads at once without an order between them fails a model by itself: entries that overlap, an entry announced before it
//! is written, room that is written over while a thread still reads it.
//!
//! | model | what holds |
//! |---|---|
//! | `completes_in_order` | entries do not overlap; the announced part, here and in the page, is whole and only grows, and each entry is once |
//! | `is_taken_along`, `is_not_handed_in` | an entry that is whole too early completes in its turn, by one thread, and leaves nothing |
//! | `room_is_used_again` | a writer gets retired room only after its readers are done; a full log takes nothing |
//! | `unused_room_is_given_back` | a writer that gives up (an error, a thread that ends) blocks no other; places stay without a gap |
//!
//! [`every_ordering_and_check_is_needed`] makes each ordering of the files a step weaker, and leaves out each named
//! check: all of that is noticed.

use crate::order::Order;
use crate::space::Space;
use crate::sync::{AtomicU64, Ordering};
use cuesta_format::{Geometry, LogPosition};
use cuesta_model::{Arc, Racy, explore, thread, unnoticed_mistakes, yield_now};

/// Slots of the ring, each of one entry of one byte.
const SLOTS: usize = 2;

fn geometry() -> Geometry {
    Geometry { segment_bytes: 1, ring_slots: SLOTS as u32, ..Geometry::default() }
}

struct Log {
    space: Space,
    order: Order,
    page: AtomicU64,
    /// Entries announced: by the thread that has the turn, which no other has.
    announced: Racy<u64>,
    /// The last writer.
    cells: [Racy<u64>; SLOTS],
}

impl Log {
    fn new(granted: u32) -> Arc<Log> {
        let start = LogPosition(0);
        let space = Space::new(start);
        space.set_limit(&geometry(), granted, start);
        let page = AtomicU64::new(0);
        let cells = [Racy::new(0), Racy::new(0)];
        Arc::new(Log { space, order: Order::new(start), page, announced: Racy::new(0), cells })
    }

    fn cell(&self, position: u64) -> &Racy<u64> {
        &self.cells[position as usize % SLOTS]
    }

    /// Appends an entry of `writer`, as `Appender` does; answers where it lies, if there is room.
    fn append(&self, writer: u64) -> Option<u64> {
        let admission = self.space.admit(1).ok()?;
        let bytes = admission.bytes;
        admission.consume();
        let start = self.order.reserve(bytes);
        // SAFETY: the model itself checks that no other thread is there.
        self.cell(start.0).with_mut(|cell| unsafe { *cell = writer });
        self.order.complete(start, start.plus(bytes), |end, entries, ordering| {
            // SAFETY: as above.
            self.announced.with_mut(|announced| unsafe { *announced += entries });
            self.page.store(end.0, ordering);
        });
        assert!(self.order.completed() > start, "returned implies recoverable");
        Some(start.0)
    }

    fn announced(&self) -> u64 {
        // SAFETY: as in `append`.
        self.announced.with(|announced| unsafe { *announced })
    }

    fn read(&self, position: u64) -> u64 {
        // SAFETY: as in `append`.
        self.cell(position).with(|cell| unsafe { *cell })
    }
}

#[test]
fn completes_in_order() {
    explore("completes_in_order", || {
        let log = Log::new(SLOTS as u32);
        let writers = [1, 2].map(|writer| {
            let log = log.clone();
            thread::spawn(move || log.append(writer))
        });
        let mut seen = 0;
        for _ in 0..2 {
            let completed = log.page.load(Ordering::Acquire);
            assert!(completed >= seen, "the page went back");
            (seen..completed).for_each(|position| assert_ne!(log.read(position), 0, "a hole at {position}"));
            seen = completed;
        }
        let mut places = writers.map(|writer| writer.join().unwrap());
        assert_eq!(log.order.completed(), LogPosition(2));
        assert_eq!((log.page.load(Ordering::Relaxed), log.announced()), (2, 2));
        for (place, writer) in places.iter().zip([1, 2]) {
            assert_eq!(place.map(|place| log.read(place)), Some(writer));
        }
        places.sort();
        assert_eq!(places, [Some(0), Some(1)]);
    });
}

/// Two entries, of which the later one is whole first or not, and finds a cell to be handed in by or not.
fn completes_out_of_turn(is_cell_free: bool) {
    let order = Arc::new(Order::new(LogPosition(0)));
    let written = Arc::new(Racy::new(false));
    let [first, second, elsewhere] = [0, 1, 2].map(LogPosition);
    assert_eq!([order.reserve(1), order.reserve(1)], [first, second]);
    assert!(is_cell_free || order.handed_in.put(elsewhere, elsewhere.plus(1)));
    let later = {
        let (order, written) = (order.clone(), written.clone());
        thread::spawn(move || {
            // SAFETY: the model itself checks that no other thread is there.
            written.with_mut(|written| unsafe { *written = true });
            order.complete(second, elsewhere, |end, entries, _| assert_eq!((end, entries), (elsewhere, 1)));
            assert!(order.completed() > second, "returned implies recoverable");
        })
    };
    order.complete(first, second, |end, entries, _| {
        assert_eq!(end, first.plus(entries));
        // SAFETY: as above.
        assert!(entries == 1 || written.with(|written| unsafe { *written }), "taken along unwritten");
    });
    later.join().unwrap();
    assert_eq!(order.completed(), elsewhere);
    assert_eq!(order.handed_in.put(elsewhere, elsewhere.plus(1)), is_cell_free, "a cell is left in use");
}

#[test]
fn is_taken_along() {
    explore("is_taken_along", || completes_out_of_turn(true));
}

#[test]
fn is_not_handed_in() {
    explore("is_not_handed_in", || completes_out_of_turn(false));
}

/// This process sees its own log through the appender, not through the page.
#[test]
fn announced_entries_are_whole() {
    explore("announced_entries_are_whole", || {
        let log = Log::new(SLOTS as u32);
        let writers = [1, 2].map(|writer| {
            let log = log.clone();
            thread::spawn(move || log.append(writer))
        });
        (0..log.order.completed().0).for_each(|position| assert_ne!(log.read(position), 0));
        assert!(writers.map(|writer| writer.join().unwrap()).iter().all(Option::is_some));
    });
}

#[test]
fn room_is_used_again() {
    explore("room_is_used_again", || {
        let log = Log::new(SLOTS as u32);
        assert_eq!((log.append(1), log.append(1), log.append(1)), (Some(0), Some(1), None));
        let writers = [2, 3].map(|writer| {
            let log = log.clone();
            thread::spawn(move || {
                let place = log.append(writer);
                assert!(place.is_none_or(|place| place == 2), "{place:?} was not retired");
                place
            })
        });
        assert_eq!(log.read(0), 1, "read before it is retired");
        log.space.set_limit(&geometry(), SLOTS as u32, LogPosition(1));
        let written = writers.map(|writer| writer.join().unwrap()).into_iter().flatten().count() as u64;
        assert!(written <= 1, "the room of one entry was given to two");
        assert_eq!(log.order.completed(), LogPosition(2 + written));
        assert_eq!(log.read(1), 1);
    });
}

/// Room that was admitted and is not needed, while another waits for it.
#[test]
fn unused_room_is_given_back() {
    explore("unused_room_is_given_back", || {
        let log = Log::new(1);
        let gives_up = {
            let log = log.clone();
            thread::spawn(move || drop(log.space.admit(1)))
        };
        let writer = {
            let log = log.clone();
            thread::spawn(move || {
                loop {
                    match log.append(1) {
                        Some(place) => return place,
                        None => yield_now(),
                    }
                }
            })
        };
        gives_up.join().unwrap();
        assert_eq!(writer.join().unwrap(), 0);
        assert_eq!(log.space.admitted(), LogPosition(1));
        assert!(log.space.admit(1).is_err());
    });
}

#[test]
fn every_ordering_and_check_is_needed() {
    let unnoticed = unnoticed_mistakes(&[
        ("models::completes_in_order", completes_in_order),
        ("models::is_taken_along", is_taken_along),
        ("models::is_not_handed_in", is_not_handed_in),
        ("models::announced_entries_are_whole", announced_entries_are_whole),
        ("models::room_is_used_again", room_is_used_again),
        ("models::unused_room_is_given_back", unused_room_is_given_back),
    ]);
    assert_eq!(unnoticed, Vec::<String>::new());
}
