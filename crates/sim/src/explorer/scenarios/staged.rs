//! Staged writes, and what may happen to their blocks before a digest adopts them and after: overwrites, cuts, removal,
//! another window. At the sizes of a small store 8 KiB of whole blocks are staged, and a window is used up soon.

use super::workloads::{path, population, with_other_bytes};
use crate::explorer::crashes::deaths::Death;
use crate::explorer::crashes::store::{On, Step, Workload};
use crate::operations::operation::{FallocateMode, Operation, Pattern};

/// On memory; on a disk that is synced behind each call, or never.
pub const STAGED_ON: [On; 3] = [On::PersistentMemory, On::Disk(1), On::Disk(usize::MAX)];

fn append(seed: u64, length: u32) -> Operation {
    Operation::Write { slot: 1, data: Pattern { seed, length } }
}

fn pwrite(offset: u64, length: u32) -> Operation {
    Operation::Pwrite { slot: 0, offset, data: Pattern { seed: 70 + offset + u64::from(length), length } }
}

/// Writes that are staged: with head and tail, of whole blocks, behind a hole, over content.
fn staged_writes() -> Vec<Operation> {
    vec![append(71, 13_000), pwrite(8192, 8192), pwrite(20_000, 12_500), pwrite(0, 16_384)]
}

/// What happens next.
fn disturbances() -> Vec<Operation> {
    vec![
        append(72, 17_000),
        append(73, 300),
        pwrite(9000, 200),
        pwrite(4096, 16_384),
        Operation::Ftruncate { slot: 0, length: 9000 },
        Operation::Ftruncate { slot: 0, length: 0 },
        Operation::Unlink { path: path("/f") },
        Operation::Unlink { path: path("/g") },
        Operation::Rename { from: path("/d/x"), to: path("/g") },
        Operation::Fallocate { slot: 0, mode: FallocateMode::PunchHole, offset: 5000, length: 9000 },
        Operation::Fallocate { slot: 0, mode: FallocateMode::InsertRange, offset: 4096, length: 4096 },
        Operation::Close { slot: 0 },
    ]
}

/// Each staged write, and something behind it in the same batch; then the write again, in other blocks, and its digest.
pub fn staged() -> Vec<Workload> {
    let disturbances = disturbances();
    let writes = staged_writes();
    let pairs = writes.iter().flat_map(|write| disturbances.iter().map(move |next| (write, next)));
    let workload = |(write, next): (&Operation, &Operation)| {
        let call = |call: &Operation| Step::Call(0, call.clone());
        let again = with_other_bytes(write.clone());
        let steps = vec![call(write), call(next), Step::Digest(0), call(&again), Step::Digest(0)];
        Workload { setup: population(), steps, ..Workload::default() }
    };
    // A call on a file that is closed is answered, too.
    pairs.map(workload).collect()
}

/// Each staged write by a client that dies in it, or in doing it once more with other bytes.
pub fn lost_staged() -> Vec<Death> {
    let death = |call: Operation| {
        let calls = vec![call.clone(), with_other_bytes(call)];
        Death { setup: population(), calls, ..Death::default() }
    };
    staged_writes().into_iter().map(death).collect()
}
