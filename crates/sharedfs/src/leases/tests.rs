//! The table of leases, request by request.

use crate::leases::*;
use cuesta_format::wire::LeaseMode;
use cuesta_format::{InodeNumber, LogPosition, SessionId};
use hashbrown::HashSet;
use std::time::Duration;

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const X: InodeNumber = InodeNumber(10);
const NOW: Duration = Duration::from_secs(50);
const HOLD: Duration = Duration::from_millis(1);
const READ: LeaseMode = LeaseMode::Read;
const WRITE: LeaseMode = LeaseMode::Write;

fn later(us: u64) -> Duration {
    NOW + Duration::from_micros(us)
}

/// Takes the inode from A for B to read it.
fn contended() -> Leases {
    let mut leases = Leases::new(HOLD);
    leases.request(A, X, WRITE, NOW);
    assert_eq!(leases.request(B, X, READ, NOW), Outcome::Fence(vec![A]));
    leases.revoke(A, X, NOW);
    assert_eq!(leases.request(B, X, READ, NOW), Outcome::Granted(READ));
    leases
}

#[test]
fn an_uncontended_reader_gets_write() {
    let mut leases = Leases::new(HOLD);
    assert_eq!(leases.request(A, X, READ, NOW), Outcome::Granted(WRITE));
    assert_eq!(leases.held(A, X), Some(WRITE));
    assert_eq!(leases.held(B, X), None);
}

#[test]
fn joining_the_readers_takes_no_lease_away() {
    let mut leases = Leases::new(HOLD);
    assert!(leases.join_readers(A, X) && leases.join_readers(B, X) && !leases.join_readers(B, X));
    assert_eq!((leases.held(A, X), leases.held(B, X)), (Some(READ), Some(READ)));
    assert_eq!(leases.request(A, X, WRITE, NOW), Outcome::Fence(vec![B]));
    leases.revoke(B, X, NOW);
    assert_eq!(leases.request(A, X, WRITE, NOW), Outcome::Granted(WRITE));
    assert!(!leases.join_readers(B, X), "a session writes");
    leases.give_back(A, X, Some(LogPosition(7)));
    assert!(!leases.join_readers(B, X), "the write is in a log");
    leases.digested(A, X, LogPosition(7));
    assert!(leases.join_readers(B, X));
    leases.end_session(A);
    leases.end_session(B);
    assert_eq!(leases.holders(X), []);
}

/// Two directories that two sessions change: the session that gets the one gets the other with it.
#[test]
fn two_contended_directories_change_hands_together() {
    const Y: InodeNumber = InodeNumber(11);
    let mut leases = Leases::new(HOLD);
    for inode in [X, Y] {
        leases.request(A, inode, WRITE, NOW);
        assert_eq!(leases.goes_along(A, B, NOW), [], "it is not known yet that B wants it");
        assert_eq!(leases.request(B, inode, WRITE, NOW), Outcome::Fence(vec![A]));
        leases.revoke_directory(A, inode, NOW);
        assert_eq!(leases.request(B, inode, WRITE, NOW), Outcome::Granted(WRITE));
    }
    let then = later(2000);
    assert_eq!(leases.request(A, Y, WRITE, then), Outcome::Fence(vec![B]));
    assert_eq!(leases.goes_along(B, A, then), [X, Y]);
    for inode in [X, Y] {
        leases.revoke_directory(B, inode, then);
    }
    assert_eq!(leases.request(A, Y, WRITE, then), Outcome::Granted(WRITE));
    assert_eq!(leases.grant_along(A, then), [X]);
    assert_eq!(leases.held(A, X), Some(WRITE));
    assert!(matches!(leases.request(B, X, WRITE, then), Outcome::Hold(_)));
    // An inode that it never asks for stays away from it in the end.
    let comes_back = |leases: &mut Leases| {
        leases.revoke_unasked(A, X, then);
        !leases.grant_along(A, then).is_empty()
    };
    let times = (0..100).take_while(|_| comes_back(&mut leases)).count();
    assert!((1..20).contains(&times), "{times}");
}

/// The third comes back first, once its time is over: it has waited for less than the second.
#[test]
fn the_longest_waiter_comes_next() {
    const C: SessionId = SessionId(3);
    let mut leases = Leases::new(HOLD);
    leases.request(A, X, WRITE, NOW);
    assert_eq!(leases.request(B, X, WRITE, NOW), Outcome::Fence(vec![A]));
    leases.revoke_directory(A, X, NOW);
    assert_eq!(leases.request(B, X, WRITE, NOW), Outcome::Granted(WRITE));
    leases.keep_all(B, X, NOW, later(1000));
    assert_eq!(leases.request(A, X, WRITE, later(10)), Outcome::Hold(Duration::from_micros(990)));
    assert_eq!(leases.request(C, X, WRITE, later(20)), Outcome::Hold(Duration::from_micros(980)));
    assert!(matches!(leases.request(C, X, WRITE, later(1001)), Outcome::Queue(_)));
    // A session that has been passed over for long enough is not waited for; nor is one that has given up.
    assert_eq!(leases.request(C, X, WRITE, later(50_000)), Outcome::Fence(vec![B]));
    assert_eq!(leases.request(A, X, WRITE, later(1002)), Outcome::Fence(vec![B]));
    leases.stop_waiting(A);
    assert_eq!(leases.request(C, X, WRITE, later(1003)), Outcome::Fence(vec![B]));
}

/// Three sessions raced for a file that a fourth one wrote. One of them could lose each race: it waited for 230 ms while the others had nine
/// turns.
#[test]
fn sessions_that_wait_for_a_file_have_their_turns_in_order() {
    const SESSIONS: [SessionId; 4] = [A, B, SessionId(3), SessionId(4)];
    let mut leases = Leases::new(HOLD);
    leases.request(A, X, WRITE, NOW);
    leases.revoke(A, X, NOW);
    assert_eq!(leases.request(B, X, WRITE, NOW), Outcome::Granted(WRITE));
    let (mut holder, mut turns, mut now) = (B, Vec::new(), NOW);
    let mut waiting = vec![SESSIONS[3], SESSIONS[2], A];
    for _ in 0..12 {
        for (place, &waiter) in waiting.iter().enumerate() {
            let asked = leases.request(waiter, X, WRITE, now + Duration::from_micros(place as u64));
            assert!(matches!(asked, Outcome::Hold(_)), "{waiter:?} {asked:?}");
        }
        // Those that come last ask first, once the turn is over.
        now += HOLD * 2;
        for &waiter in waiting[1..].iter().rev() {
            assert!(matches!(leases.request(waiter, X, WRITE, now), Outcome::Queue(_)), "{waiter:?}");
        }
        let next = waiting.remove(0);
        assert_eq!(leases.request(next, X, WRITE, now), Outcome::Fence(vec![holder]));
        leases.revoke(holder, X, now);
        assert_eq!(leases.request(next, X, WRITE, now), Outcome::Granted(WRITE));
        waiting.push(std::mem::replace(&mut holder, next));
        turns.push(next);
    }
    for session in SESSIONS {
        assert_eq!(turns.iter().filter(|&&turn| turn == session).count(), 3);
    }
}

/// Such a one is given it to change when it looks; for as long as it does.
#[test]
fn a_session_that_changes_a_directory_it_looked_at_is_remembered() {
    let mut leases = Leases::new(HOLD);
    leases.request(A, X, WRITE, NOW);
    leases.revoke_directory(A, X, NOW);
    assert_eq!(leases.request(B, X, READ, NOW), Outcome::Granted(READ));
    assert!(!leases.changes_after_look(B, X, NOW), "it has only looked");
    assert_eq!(leases.request(B, X, WRITE, NOW), Outcome::Granted(WRITE));
    assert!(leases.changes_after_look(B, X, NOW) && !leases.changes_after_look(A, X, NOW));
    leases.revoke_directory(B, X, later(1000));
    assert!(leases.changes_after_look(B, X, later(1000)));
    (0..10).for_each(|_| leases.looked(B, X, false));
    assert!(!leases.changes_after_look(B, X, later(1000)));
}

/// If new sessions change a directory after their look, SharedFS expects it of the next one, until one only looks.
#[test]
fn a_newcomer_is_expected_to_do_what_others_did_with_the_directory() {
    let mut leases = Leases::new(HOLD);
    leases.request(A, X, WRITE, NOW);
    leases.revoke_directory(A, X, NOW);
    let newcomer = SessionId(99);
    for session in [B, SessionId(3)] {
        assert!(!leases.changes_after_look(newcomer, X, NOW));
        assert_eq!(leases.request(session, X, READ, NOW), Outcome::Granted(READ));
        // It asks again once the reader is fenced, and counts once all the same.
        leases.join_readers(A, X);
        assert_eq!(leases.request(session, X, WRITE, later(1000)), Outcome::Fence(vec![A]));
        leases.revoke(A, X, NOW);
        assert_eq!(leases.request(session, X, WRITE, NOW), Outcome::Granted(WRITE));
        leases.looked(session, X, true);
        leases.revoke_directory(session, X, NOW);
    }
    assert!(
        leases.changes_after_look(newcomer, X, NOW)
            && !leases.changes_after_look(newcomer, InodeNumber(11), NOW)
    );
    leases.end_session(B);
    leases.looked(newcomer, X, false);
    assert!(!leases.changes_after_look(newcomer, X, NOW));
    leases.looked(newcomer, X, true);
    assert!(leases.changes_after_look(SessionId(98), X, NOW));
    let mount = SessionId(97);
    leases.note_staying(mount);
    assert!(!leases.changes_after_look(mount, X, NOW), "it is no newcomer");
    (0..10).for_each(|_| leases.looked(mount, X, false));
    assert!(leases.changes_after_look(SessionId(98), X, NOW), "a mount's looks say nothing of programs");
}

/// A session that only looks lets others look.
#[test]
fn a_directory_a_session_only_read_does_not_come_back_unasked() {
    let mut leases = Leases::new(HOLD);
    leases.request(A, X, WRITE, NOW);
    leases.revoke_directory(A, X, NOW);
    assert_eq!(leases.request(B, X, READ, NOW), Outcome::Granted(READ));
    assert_eq!(leases.request(A, X, WRITE, NOW), Outcome::Hold(HOLD));
    leases.revoke_directory(B, X, later(1000));
    assert_eq!(leases.request(A, X, WRITE, later(1000)), Outcome::Granted(WRITE));
    assert_eq!(leases.goes_along(A, B, later(1000)), []);
}

/// Processes of a database read and change pages of many files: none of them is kept from a file for the sake of another.
#[test]
fn files_do_not_go_from_hand_to_hand_together() {
    const Y: InodeNumber = InodeNumber(11);
    let mut leases = Leases::new(HOLD);
    for inode in [X, Y] {
        leases.request(A, inode, WRITE, NOW);
        leases.revoke(A, inode, NOW);
        assert_eq!(leases.request(B, inode, WRITE, NOW), Outcome::Granted(WRITE));
    }
    assert_eq!(leases.goes_along(B, A, later(2000)), []);
}

#[test]
fn a_fencing_session_gets_no_more_than_it_asked_for_and_readers_share() {
    let mut leases = contended();
    assert_eq!(leases.request(A, X, READ, NOW), Outcome::Granted(READ));
    assert_eq!(leases.request(B, X, READ, later(5)), Outcome::Granted(READ));
    assert_eq!((leases.held(A, X), leases.held(B, X)), (Some(READ), Some(READ)));
}

#[test]
fn contention_is_remembered_for_a_while_without_a_holder() {
    let mut leases = contended();
    leases.end_session(B);
    assert_eq!(leases.request(A, X, READ, later(9_999_999)), Outcome::Granted(READ));
    leases.end_session(A);
    assert_eq!(leases.request(B, X, READ, later(10_000_000)), Outcome::Granted(WRITE));
    assert_eq!(leases.request(A, X, READ, later(10_001_000)), Outcome::Fence(vec![B]));
}

#[test]
fn a_contended_lease_is_kept_for_a_moment() {
    let mut leases = contended();
    assert_eq!(leases.request(A, X, WRITE, later(400)), Outcome::Hold(Duration::from_micros(600)));
    assert_eq!(leases.request(B, X, WRITE, later(500)), Outcome::Granted(WRITE));
    assert_eq!(leases.request(A, X, READ, later(1000)), Outcome::Hold(Duration::from_micros(500)));
    assert_eq!(leases.request(A, X, WRITE, later(1500)), Outcome::Fence(vec![B]));
    leases.revoke(B, X, later(1600));
    assert_eq!(leases.request(A, X, WRITE, later(1600)), Outcome::Granted(WRITE));
}

#[test]
fn readers_that_come_and_go_do_not_keep_a_writer_waiting() {
    let mut leases = contended();
    assert_eq!(leases.request(A, X, READ, later(900)), Outcome::Granted(READ));
    assert_eq!(leases.request(A, X, READ, later(950)), Outcome::Granted(READ));
    assert_eq!(leases.request(SessionId(3), X, WRITE, later(1000)), Outcome::Fence(vec![B, A]));
}

#[test]
fn a_created_inode_is_its_makers_until_it_loses_it() {
    let mut leases = Leases::default();
    leases.grant_numbers(A, X, 5);
    assert_eq!(leases.held(A, InodeNumber(14)), Some(WRITE));
    assert_eq!(leases.held(A, InodeNumber(15)), None);
    assert_eq!(leases.request(B, InodeNumber(14), READ, NOW), Outcome::Fence(vec![A]));
    leases.revoke(A, InodeNumber(14), NOW);
    assert_eq!(leases.held(A, InodeNumber(14)), None);
    assert_eq!(leases.request(B, InodeNumber(14), READ, NOW), Outcome::Granted(READ));
    leases.end_session(B);
    assert_eq!(leases.request(A, InodeNumber(14), WRITE, NOW), Outcome::Granted(WRITE));
    leases.end_session(A);
    assert!(leases.entries.is_empty() && leases.of_session.is_empty() && leases.ranges.is_empty());
    assert!(leases.blocks.is_empty() && leases.lost.is_empty());
}

#[test]
fn a_lost_inode_does_not_come_back_to_its_maker_when_others_end() {
    let mut leases = Leases::default();
    leases.grant_numbers(A, X, 5);
    leases.revoke(A, X, NOW);
    leases.request(B, X, WRITE, NOW);
    leases.end_session(B);
    assert_eq!(leases.held(A, X), None);
    leases.end_session(A);
    assert!(leases.entries.is_empty() && leases.of_session.is_empty());
}

#[test]
fn given_back_with_an_undigested_log_it_lingers() {
    let mut leases = Leases::default();
    leases.request(A, X, WRITE, NOW);
    leases.give_back(A, X, Some(LogPosition(640)));
    assert_eq!(leases.request(B, X, READ, NOW), Outcome::Drain(A, LogPosition(640)));
    assert_eq!(leases.request(A, X, READ, NOW), Outcome::Drain(A, LogPosition(640)));
    leases.digested(A, X, LogPosition(576));
    assert_eq!(leases.request(B, X, READ, NOW), Outcome::Drain(A, LogPosition(640)));
    leases.digested(A, X, LogPosition(640));
    assert_eq!(leases.request(B, X, WRITE, NOW), Outcome::Granted(WRITE));
    assert_eq!(leases.count(A), 0);
}

#[test]
fn an_inode_that_is_not_held_is_not_given_back() {
    let mut leases = Leases::default();
    leases.request(A, X, WRITE, NOW);
    leases.give_back(B, X, Some(LogPosition(64)));
    assert_eq!(leases.held(A, X), Some(WRITE));
}

#[test]
fn the_end_of_a_session_frees_everything() {
    let mut leases = Leases::default();
    leases.request(A, X, WRITE, NOW);
    leases.request(A, InodeNumber(11), WRITE, NOW);
    leases.give_back(A, InodeNumber(11), Some(LogPosition(64)));
    leases.end_session(A);
    assert_eq!(leases.request(B, X, WRITE, NOW), Outcome::Granted(WRITE));
    assert_eq!(leases.request(B, InodeNumber(11), WRITE, NOW), Outcome::Granted(WRITE));
}

/// What A holds of a block, as (inode, mode).
fn ahead(leases: &mut Leases, session: SessionId, numbers: std::ops::Range<u64>) -> Vec<u64> {
    let (wanted, mut granted) = (numbers.map(InodeNumber).collect::<Vec<_>>(), Vec::new());
    leases.request_ahead(session, &wanted, READ, NOW, &mut granted);
    granted.into_iter().map(|(inode, _)| inode.0).collect()
}

#[test]
fn a_lease_granted_ahead_is_held_and_granted_once() {
    let mut leases = contended();
    leases.request(B, InodeNumber(12), READ, NOW);
    let mut granted = Vec::new();
    leases.request_ahead(A, &[X], WRITE, NOW, &mut granted);
    assert_eq!(granted, [], "it is fought over");
    assert_eq!(ahead(&mut leases, A, 8..14), [8, 9, 10, 11, 13], "12 is B's");
    assert_eq!((leases.held(A, X), leases.held(B, X)), (Some(READ), Some(READ)));
    assert_eq!(ahead(&mut leases, A, 8..14), [], "it holds them");
    assert_eq!(ahead(&mut leases, B, 8..14), [], "a session holds them");
    assert_eq!((leases.held(A, InodeNumber(9)), leases.count(A)), (Some(WRITE), 5));
    assert_eq!(leases.holders(InodeNumber(9)), [(A, WRITE)]);
    assert_eq!(leases.request(A, InodeNumber(9), WRITE, NOW), Outcome::Granted(WRITE));
    assert_eq!(leases.request(B, InodeNumber(9), READ, NOW), Outcome::Fence(vec![A]));
    leases.revoke(A, InodeNumber(9), NOW);
    leases.revoke_along(A, InodeNumber(11));
    assert_eq!((leases.held(A, InodeNumber(9)), leases.held(A, InodeNumber(11))), (None, None));
    assert_eq!(leases.request(B, InodeNumber(9), READ, NOW), Outcome::Granted(READ));
    assert_eq!(ahead(&mut leases, B, 8..14), [11]);
    assert_eq!((leases.count(A), leases.count(B)), (3, 4));
    for session in [A, B] {
        leases.end_session(session);
    }
    assert_eq!(ahead(&mut leases, A, 11..14), [11, 12, 13]);
    leases.end_session(A);
    assert!(leases.entries.is_empty() && leases.of_session.is_empty() && leases.blocks.is_empty());
}

#[test]
fn a_lease_granted_ahead_lingers_like_any_other() {
    let mut leases = Leases::default();
    assert_eq!(ahead(&mut leases, A, 10..12), [10, 11]);
    leases.give_back(A, X, Some(LogPosition(640)));
    assert_eq!(leases.request(B, X, READ, NOW), Outcome::Drain(A, LogPosition(640)));
    assert!(!leases.give_back(A, InodeNumber(11), None));
    assert_eq!(leases.request(B, InodeNumber(11), READ, NOW), Outcome::Granted(WRITE));
    leases.digested(A, X, LogPosition(640));
    assert_eq!(ahead(&mut leases, B, 10..12), [10]);
}

#[test]
fn numbers_granted_behind_each_other_are_one_range() {
    let mut leases = Leases::default();
    for (session, first) in [(A, 10), (A, 15), (B, 20), (A, 25), (A, 30), (A, 40)] {
        leases.grant_numbers(session, InodeNumber(first), 5);
    }
    assert_eq!(leases.ranges.len(), 4);
    let owners: Vec<_> = (9..46).map(|number| leases.owner_of_number(InodeNumber(number))).collect();
    let owner = |number: u64| match number {
        20..25 => Some(B),
        10..35 | 40..45 => Some(A),
        _ => None,
    };
    assert_eq!(owners, (9..46).map(owner).collect::<Vec<_>>());
}

#[test]
fn numbers_not_yet_used_are_not_granted_ahead() {
    let mut leases = Leases::default();
    leases.grant_numbers(A, X, 5);
    assert_eq!(ahead(&mut leases, B, 8..17), [8, 9, 15, 16]);
    assert_eq!(leases.held(A, X), Some(WRITE));
}

#[test]
fn files_one_made_and_another_looks_at_take_no_entries() {
    const FILES: u64 = 10_000;
    let mut leases = Leases::new(HOLD);
    leases.grant_numbers(A, X, FILES as u32);
    let made = X.0..X.0 + FILES;
    made.clone().for_each(|number| leases.revoke_along(A, InodeNumber(number)));
    assert!(leases.entries.is_empty() && leases.count(A) == 0);
    assert_eq!(leases.may_be_unborn(X, B), None);
    assert_eq!(ahead(&mut leases, B, made.clone()), made.clone().collect::<Vec<_>>());
    assert!(leases.entries.is_empty());
    assert_eq!((leases.held(A, X), leases.held(B, X), leases.count(B)), (None, Some(WRITE), FILES));
    assert_eq!(leases.request(A, X, WRITE, NOW), Outcome::Fence(vec![B]));
    leases.revoke(B, X, NOW);
    assert_eq!(leases.request(A, X, WRITE, NOW), Outcome::Granted(WRITE));
    leases.give_back(A, X, Some(LogPosition(64)));
    leases.digested(A, X, LogPosition(64));
    assert!(leases.entries.is_empty() && leases.held(A, X).is_none());
    for session in [A, B] {
        leases.end_session(session);
    }
    assert!(
        leases.blocks.is_empty()
            && leases.lost.is_empty()
            && leases.of_session.values().all(HashSet::is_empty)
    );
}

#[test]
fn lingering_leases_take_no_memory_once_they_are_gone() {
    const FILES: u64 = 100_000;
    let mut leases = Leases::new(HOLD);
    leases.grant_numbers(A, X, FILES as u32);
    let made = (X.0..X.0 + FILES).map(InodeNumber);
    made.clone().for_each(|inode| assert!(leases.give_back(A, inode, Some(LogPosition(64)))));
    assert_eq!(leases.entries.len() as u64, FILES);
    made.for_each(|inode| leases.digested(A, inode, LogPosition(64)));
    let kept = leases.entries.capacity() + leases.of_session[&A].capacity();
    assert!(leases.entries.is_empty() && kept < 10_000, "room for {kept}");
}
