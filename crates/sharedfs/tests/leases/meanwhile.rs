//! Sessions that take back what they said while SharedFS is at work on it. No test can have the daemon stop in
//! between, so each is tried again and again, at moments of chance: a daemon that is right is right at all of them.

use crate::common::*;
use cuesta_format::Operation;
use cuesta_format::entry::crc32c;
use cuesta_format::wire::{LeaseMode, Request, Response};
use cuesta_sharedfs::{Options, SharedFs};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn seed() -> u64 {
    let seed = std::env::var("SEED").map_or(5, |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    seed
}

/// An entry as it goes into the log where the writer is now.
fn sealed(writer: &Writer, operation: &Operation<'_>) -> Vec<u8> {
    let header = writer.header(operation, 1);
    let mut body = vec![0; operation.body_bytes()];
    operation.encode_body(&mut body);
    let mut bytes = header.seal(writer.salt, crc32c(&body)).to_vec();
    bytes.extend_from_slice(&body);
    bytes.resize(header.entry_bytes() as usize, 0);
    bytes
}

/// A session had a digest begin, denied that there was anything in its log, and gave a lease back. The next session
/// that asked was granted the file as it had been, and the digest changed it under a lease that let no other
/// session.
#[test]
fn an_inode_given_back_during_its_digest_is_granted_as_that_leaves_it() {
    const ROUNDS: u32 = 60;
    let mut random = fastrand::Rng::with_seed(seed());
    let mut longest = Duration::from_micros(100);
    for round in 0..ROUNDS {
        let store = Store::new();
        let shared =
            SharedFs::open(&store.tier(), Options { digest_batch_bytes: 1 << 20, ..options() }).unwrap();
        let mut hostile = Writer::attach(&shared);
        let file = hostile.file(b"f");
        hostile.digest();
        let before = hostile.at;
        hostile.write(file, 0, b"content");
        for number in 0..2000 {
            hostile.file(format!("n{number}").as_bytes());
        }
        let mut next = Writer::attach(&shared);

        let begins = Barrier::new(2);
        let granted = std::thread::scope(|scope| {
            let digesting = scope.spawn(|| {
                begins.wait();
                let began = Instant::now();
                shared.digest_step().unwrap();
                began.elapsed()
            });
            begins.wait();
            let until = Instant::now() + longest.mul_f64(random.f64());
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            hostile.complete(before);
            assert_eq!(hostile.request(&Request::GiveBack { inodes: vec![file] }), Response::Done);
            let granted = next.acquire(file, LeaseMode::Read).record.size;
            longest = longest.max(digesting.join().unwrap());
            granted
        });
        let size = shared.inode_record(file).unwrap().unwrap().size;
        assert_eq!(granted, size, "round {round}: what was granted, and what there is");
        assert_eq!(next.generation(), next.lease_generation, "no session took it away again");
    }
}

/// A batch that has to be applied once more is read once more, and its session may have written something else
/// there meanwhile: the first look at foreign inodes said nothing of that.
#[test]
fn a_log_rewritten_between_two_looks_at_it_changes_nothing_of_others() {
    const ROUNDS: u32 = 150;
    let mut random = fastrand::Rng::with_seed(seed());
    let store = Store::new();
    let shared = store.open();
    let mut honest = Writer::attach(&shared);
    let directory = honest.directory(b"honest");
    let [one, other] = [b"one".as_slice(), b"other"].map(|name| {
        let file = honest.create_in(directory, name, 0o100_600);
        honest.write(file, 0, b"honest");
        file
    });
    honest.digest();
    for round in 0..ROUNDS {
        let mut hostile = Writer::attach(&shared);
        let (own, taken) = (format!("own{round}"), format!("taken{round}"));
        let own = hostile.file(own.as_bytes());
        hostile.file(taken.as_bytes());
        hostile.digest();
        // First the entry that is rewritten, then a name that is there already, which only a second look can
        // tell, and behind that an inode that is foreign at the first look.
        let at = hostile.at;
        let data = b"forged";
        let variants = [own, one].map(|inode| sealed(&hostile, &Operation::Write { inode, offset: 0, data }));
        hostile.append_forged(Operation::Write { inode: own, offset: 0, data });
        for number in 0..random.usize(1..300) {
            hostile.file(format!("n{round}-{number}").as_bytes());
        }
        hostile.file(taken.as_bytes());
        hostile.append_forged(Operation::Write { inode: other, offset: 0, data });
        let (begins, done) = (Barrier::new(2), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                begins.wait();
                for variant in variants.iter().cycle() {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    hostile.write_raw(at, variant);
                }
            });
            begins.wait();
            shared.handle(hostile.session, &Request::Digest, &mut Vec::new());
            done.store(true, Ordering::Relaxed);
        });
        for file in ["honest/one", "honest/other"] {
            assert_eq!(content(&shared, file), b"honest", "round {round}");
        }
        hostile.request(&Request::Detach);
    }
    // It lost the root to them, and no more.
    assert_eq!(honest.resync().revoked, [ROOT]);
    honest.write(one, 0, b"goes on");
    honest.digest();
    assert_eq!(content(&shared, "honest/one"), b"goes on");
}
