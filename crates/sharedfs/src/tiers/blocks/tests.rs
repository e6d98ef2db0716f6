//! Blocks of one tier and of several: placement, quarantine, blocks that are set aside.

use super::*;
use crate::tiers::memory::Grown;
use cuesta_format::{ArenaId, BLOCK_BYTES, BlockAddress, Geometry, LogPosition, SessionId, TierNumber};
use cuesta_media::Node;
use std::time::Duration;

const S: SessionId = SessionId(1);

fn geometry() -> Geometry {
    Geometry { arena_bytes: 64 << 10, nvm_bytes: 1 << 20, ..Geometry::default() }
}

fn allocator(arenas: u32) -> Allocator {
    let mut allocator = Allocator::new(geometry(), 1);
    for _ in 0..arenas {
        allocator.add_arena(TierNumber::FAST, Bitmap::new(16), Bitmap::new(16), 16, &[]);
    }
    allocator
}

fn commit(allocator: &mut Allocator, reservation: &mut Reservation, until: u64) {
    allocator.stage(reservation).unwrap();
    allocator.committed(reservation, S, LogPosition(until));
}

#[test]
fn placement_is_sequential_and_crosses_arenas_in_runs() {
    let mut allocator = allocator(2);
    let mut reservation = Reservation::default();
    let block = |n: u64| BlockAddress(n * BLOCK_BYTES);
    let run = |first, blocks| Some(Run { address: block(first), blocks });
    assert_eq!(allocator.take(TierNumber::FAST, 10, None, &mut reservation), run(0, 10));
    assert_eq!(allocator.take(TierNumber::FAST, 10, None, &mut reservation), run(10, 6));
    assert_eq!(allocator.take(TierNumber::FAST, 4, None, &mut reservation), run(16, 4));
    assert_eq!(allocator.take(TierNumber::FAST, 40, None, &mut reservation), run(20, 12));
    assert_eq!(allocator.take(TierNumber::FAST, 1, None, &mut reservation), None);
    assert_eq!((reservation.taken.len(), allocator.free_blocks()), (4, 0));
    allocator.abandon(&mut reservation);
    assert_eq!((allocator.free_blocks(), allocator.used_blocks(TierNumber::FAST)), (32, 0));
}

#[test]
fn only_blocks_with_memory_are_taken() {
    let mut allocator = allocator(0);
    let mut reservation = Reservation::default();
    assert_eq!(allocator.take(TierNumber::FAST, 1, None, &mut reservation), None);
    for (arena, blocks, taken) in [(0, 0..6, 6), (0, 6..16, 10), (1, 0..4, 4)] {
        allocator.grow(&Grown { arena: ArenaId(arena), blocks, bad: Vec::new(), wanted: None, node: None });
        assert_eq!(
            allocator.take(TierNumber::FAST, 16, None, &mut reservation).map(|run| run.blocks),
            Some(taken)
        );
        assert_eq!(allocator.take(TierNumber::FAST, 1, None, &mut reservation), None);
    }
    assert_eq!((allocator.made_blocks(TierNumber::FAST), allocator.free_blocks()), (20, 0));
    allocator.abandon(&mut reservation);
    assert_eq!(allocator.free_blocks(), 20);
}

#[test]
fn a_small_write_goes_back_to_where_all_of_it_has_room() {
    let mut allocator = allocator(2);
    let mut reservation = Reservation::default();
    let place = |run: Run| ((run.address.0 / BLOCK_BYTES) as u32, run.blocks);
    let takes: Vec<Run> = [3, 2, 4, 3, 2]
        .map(|most| allocator.take(TierNumber::FAST, most, None, &mut reservation).unwrap())
        .into();
    assert_eq!(
        takes.iter().map(|&run| place(run)).collect::<Vec<_>>(),
        [(0, 3), (3, 2), (5, 4), (9, 3), (12, 2)]
    );
    commit(&mut allocator, &mut reservation, 64);
    for freed in [1, 3] {
        reservation.free(takes[freed]);
    }
    commit(&mut allocator, &mut reservation, 128);
    let mut take = |allocator: &mut Allocator, most| {
        place(allocator.take(TierNumber::FAST, most, None, &mut reservation).unwrap())
    };
    assert_eq!(take(&mut allocator, 2), (14, 2), "a session may still read the free blocks there");
    allocator.retired(S, LogPosition(128));
    assert_eq!(take(&mut allocator, 3), (9, 3));
    assert_eq!(take(&mut allocator, 1), (16, 1), "a run that was too small before is not looked at again");
    reservation.free(takes[2]);
    commit(&mut allocator, &mut reservation, 192);
    allocator.retired(S, LogPosition(192));
    let mut take = |allocator: &mut Allocator, most| {
        place(allocator.take(TierNumber::FAST, most, None, &mut reservation).unwrap())
    };
    assert_eq!(take(&mut allocator, 17), (17, 15), "a large one goes on");
    assert_eq!(take(&mut allocator, 1), (5, 1));
    assert_eq!(take(&mut allocator, 3), (6, 3));
}

#[test]
fn freed_blocks_wait_for_their_readers() {
    let mut allocator = allocator(1);
    let mut reservation = Reservation::default();
    let run = allocator.take(TierNumber::FAST, 16, None, &mut reservation).unwrap();
    commit(&mut allocator, &mut reservation, 64);
    assert_eq!((allocator.free_blocks(), allocator.used_blocks(TierNumber::FAST)), (0, 16));
    reservation.free(run);
    commit(&mut allocator, &mut reservation, 128);
    assert_eq!((allocator.free_blocks(), allocator.used_blocks(TierNumber::FAST)), (0, 0));
    allocator.retired(S, LogPosition(64));
    assert_eq!(allocator.take(TierNumber::FAST, 1, None, &mut reservation), None);
    allocator.retired(S, LogPosition(128));
    assert_eq!(allocator.free_blocks(), 16);
    assert_eq!(allocator.take(TierNumber::FAST, 3, None, &mut reservation).map(|run| run.blocks), Some(3));
}

#[test]
fn content_goes_to_its_node_while_that_has_free_blocks() {
    const STEP: u32 = 512;
    let geometry = Geometry { arena_bytes: 8 << 20, nvm_bytes: 16 << 20, ..Geometry::default() };
    let mut allocator = Allocator::new(geometry, 1);
    let none = Bitmap::new(4 * STEP);
    let node = |number| Some(Node(number));
    // The first arena is there, the second one comes, of one step on each node.
    let found = [(0..STEP, Node(0)), (STEP..2 * STEP, Node(1)), (2 * STEP..3 * STEP, Node(0))];
    allocator.add_arena(TierNumber::FAST, none.clone(), none, 4 * STEP, &found);
    for (step, on) in [(0, 1), (1, 0)] {
        let blocks = step * STEP..(step + 1) * STEP;
        let grown = Grown { arena: ArenaId(1), blocks, bad: vec![step * STEP], wanted: None, node: node(on) };
        allocator.grow(&grown);
    }
    let free = |allocator: &Allocator| allocator.nodes().free().values().copied().collect::<Vec<_>>();
    assert_eq!(free(&allocator), [1535, 1023]);
    let mut reservation = Reservation::default();
    let mut take = |allocator: &mut Allocator, most, near| {
        let run = allocator.take(TierNumber::FAST, most, near, &mut reservation)?;
        Some(((run.address.0 / BLOCK_BYTES) as u32, run.blocks))
    };
    assert_eq!(take(&mut allocator, 100, node(1)), Some((512, 100)));
    assert_eq!(take(&mut allocator, 400, node(0)), Some((0, 400)));
    assert_eq!(take(&mut allocator, 1000, node(1)), Some((612, 412)));
    assert_eq!(take(&mut allocator, 1000, node(1)), Some((2049, 511)));
    assert_eq!(take(&mut allocator, 1000, node(0)), Some((400, 112)));
    assert_eq!((free(&allocator), allocator.free_blocks()), (vec![1023, 0], 1535));
    // It has no more: anywhere, also where the node is unknown.
    assert_eq!(take(&mut allocator, 1024, node(1)), Some((1024, 1024)));
    assert_eq!(free(&allocator), [511, 0]);
    assert_eq!(take(&mut allocator, 1024, node(1)), Some((2561, 511)));
    assert_eq!(take(&mut allocator, 1, node(0)), None);
    allocator.abandon(&mut reservation);
    assert_eq!((free(&allocator), allocator.free_blocks()), (vec![1535, 1023], 3070));
}

#[test]
fn the_end_of_a_session_ends_its_quarantine() {
    let mut allocator = allocator(1);
    let mut reservation = Reservation::default();
    let run = allocator.take(TierNumber::FAST, 8, None, &mut reservation).unwrap();
    commit(&mut allocator, &mut reservation, 64);
    reservation.free(run);
    commit(&mut allocator, &mut reservation, 128);
    allocator.end_session(S);
    assert_eq!(allocator.free_blocks(), 16);
}

#[test]
fn a_session_that_keeps_freed_blocks_of_a_lacking_tier_is_asked_for_them_once() {
    let mut allocator = allocator(1);
    let mut reservation = Reservation::default();
    let run = allocator.take(TierNumber::FAST, 16, None, &mut reservation).unwrap();
    commit(&mut allocator, &mut reservation, 64);
    reservation.free(run);
    commit(&mut allocator, &mut reservation, 128);
    let keepers = |allocator: &mut Allocator, time| allocator.take_idle_keepers(time);
    assert_eq!(keepers(&mut allocator, Duration::ZERO), [], "no block is wanted");
    assert_eq!(allocator.take(TierNumber::FAST, 1, None, &mut reservation), None);
    assert_eq!(keepers(&mut allocator, Duration::from_secs(3600)), [], "it may let go of them yet");
    assert_eq!(allocator.take(TierNumber::FAST, 1, None, &mut reservation), None);
    assert_eq!(keepers(&mut allocator, Duration::ZERO), [S]);
    assert_eq!(keepers(&mut allocator, Duration::ZERO), []);
}

#[test]
fn blocks_set_aside_are_never_taken_again() {
    let mut allocator = allocator(1);
    let mut reservation = Reservation::default();
    let block = |n: u64| BlockAddress(n * BLOCK_BYTES);
    // One that is reserved, one that a file has, one that is free; twice.
    let used = allocator.take(TierNumber::FAST, 4, None, &mut reservation).unwrap();
    commit(&mut allocator, &mut reservation, 64);
    allocator.take(TierNumber::FAST, 4, None, &mut reservation).unwrap();
    for at in [1, 5, 9, 9] {
        allocator.set_aside(Run { address: block(at), blocks: 1 });
    }
    assert_eq!((allocator.bad_blocks(), allocator.free_blocks()), (3, 7));
    allocator.abandon(&mut reservation);
    assert_eq!(allocator.free_blocks(), 10);
    reservation.free(used);
    let written: Vec<ArenaId> = allocator.new_bad_blocks().map(|(arena, _)| arena).collect();
    assert_eq!(written, [ArenaId(0)]);
    let bad = allocator.new_bad_blocks().next().unwrap().1;
    commit(&mut allocator, &mut reservation, 128);
    assert_eq!(allocator.new_bad_blocks().count(), 0);
    allocator.end_session(S);
    let again = Allocator::new(geometry(), 1);
    let mut committed = Vec::new();
    allocator.bitmap_bytes(ArenaId(0), &mut committed);
    for mut allocator in [allocator, again] {
        if allocator.free_blocks() == 0 {
            let [committed, bad] = [&committed, &bad].map(|bytes| Bitmap::from_bytes(16, bytes));
            allocator.add_arena(TierNumber::FAST, committed, bad, 16, &[]);
        }
        assert_eq!(allocator.free_blocks(), 13);
        while let Some(run) = allocator.take(TierNumber::FAST, 16, None, &mut reservation) {
            assert!(
                (0..run.blocks).all(|at| !allocator.is_bad(run.address.plus(u64::from(at) * BLOCK_BYTES)))
            );
        }
        let taken: u32 = reservation.taken.iter().map(|run| run.blocks).sum();
        assert_eq!(taken, 13);
        reservation.clear();
    }
}

#[test]
fn a_failed_commit_leaves_no_trace() {
    let mut allocator = allocator(1);
    let mut reservation = Reservation::default();
    let run = allocator.take(TierNumber::FAST, 8, None, &mut reservation).unwrap();
    commit(&mut allocator, &mut reservation, 64);
    let mut before = Vec::new();
    allocator.bitmap_bytes(ArenaId(0), &mut before);
    allocator.take(TierNumber::FAST, 2, None, &mut reservation).unwrap();
    reservation.free(run);
    allocator.stage(&reservation).unwrap();
    allocator.unstage(&reservation);
    allocator.abandon(&mut reservation);
    let mut after = Vec::new();
    allocator.bitmap_bytes(ArenaId(0), &mut after);
    assert_eq!((before, 8), (after, allocator.free_blocks()));
}

#[test]
fn freeing_unused_blocks_is_damage() {
    let mut allocator = allocator(1);
    let mut reservation = Reservation::default();
    let nowhere = Run { address: BlockAddress(1 << 40), blocks: 1 };
    reservation.free(nowhere);
    assert_eq!(allocator.stage(&reservation), Err(nowhere.address));
}

#[test]
fn room_goes_back_to_a_disk_once_no_session_reads_it_and_is_made_again_before_blocks_are_free() {
    let below = TierNumber(1);
    let mut allocator = Allocator::new(geometry(), 2);
    for _ in 0..2 {
        let none = Bitmap::new(16);
        allocator.add_arena(below, none.clone(), none, 16, &[]);
    }
    let mut reservation = Reservation::default();
    let [first, second] = [16, 16].map(|most| allocator.take(below, most, None, &mut reservation).unwrap());
    commit(&mut allocator, &mut reservation, 64);
    assert_eq!(allocator.take_stale(below, 64, 64), None, "all are in use");
    reservation.free(first);
    reservation.free(Run { blocks: 8, ..second });
    commit(&mut allocator, &mut reservation, 128);
    assert_eq!(allocator.take_stale(below, 64, 64), None, "the session may read them");
    allocator.retired(SessionId(1), LogPosition(128));
    let state = |allocator: &Allocator| (allocator.free_blocks_in(below), allocator.made_blocks(below));
    assert_eq!(state(&allocator), (24, 32));
    assert_eq!(allocator.take_stale(below, 64, 15), None, "so few free blocks can be spared");
    assert_eq!(allocator.take_stale(below, 64, 16), Some(first));
    assert_eq!(allocator.take_stale(below, 64, 64), None, "of the other unit blocks are in use");
    assert_eq!(
        (state(&allocator), allocator.take_bare(below, 64)),
        ((8, 16), None),
        "the disk is being asked"
    );
    allocator.put_back(first, false);
    assert_eq!(
        (state(&allocator), allocator.take_stale(below, 64, 64)),
        ((8, 16), None),
        "it was asked once"
    );
    assert_eq!(allocator.take_bare(below, 64), Some(first));
    allocator.put_back(first, true);
    assert_eq!((state(&allocator), allocator.take_bare(below, 64)), ((24, 32), None));
    assert_eq!(allocator.take_stale(below, 64, 64), None, "nothing was written since");
    // A later daemon does not know that.
    allocator.doubt_room(below);
    assert_eq!(state(&allocator), (8, 16));
    assert_eq!(allocator.take_stale(below, 64, 0), Some(first));
}
