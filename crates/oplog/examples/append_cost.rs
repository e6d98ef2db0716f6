//! The cost of one append, beside a bare copy and fence of the same bytes: the floor it is measured against.
//!
//! `cargo run --release -p cuesta-oplog --example append_cost`

use cuesta_format::control::CONTROL_BYTES;
use cuesta_format::entry::{HEADER_BYTES, Salt, entry_bytes};
use cuesta_format::{
    Geometry, InodeNumber, LeaseGeneration, LogGeneration, LogPosition, SessionId, StoreId, Timestamp,
};
use cuesta_media::{Mapping, Medium, Protection, UserSlice, Window, create_sparse};
use cuesta_oplog::{Appender, Ring, Stamp};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 15;
const BYTES_A_ROUND: usize = 48 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let geometry = Geometry::default();
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let slots = u64::from(geometry.ring_slots + geometry.overlap_slots());
    let window = Window::reserve(slots * geometry.segment_bytes, Medium::Memory)?;
    for slot in 0..slots {
        let path = folder.path().join(format!("seg-{}", slot % u64::from(geometry.ring_slots)));
        let bytes = geometry.segment_bytes;
        if slot < u64::from(geometry.ring_slots) {
            let file = create_sparse(&path, bytes)?;
            Mapping::of_file(&file, 0, bytes, Protection::ReadWrite, Medium::Memory, false)?
                .provide(&file, 0, bytes, true)?;
        }
        let file = std::fs::File::options().read(true).write(true).open(path)?;
        window.map(&file, 0, bytes, slot * bytes, Protection::ReadWrite, true)?;
    }
    let page = folder.path().join("page");
    std::fs::write(&page, [0; CONTROL_BYTES])?;
    let page = Mapping::open(&page, Protection::ReadWrite, Medium::Memory)?;
    let salt = Salt::new(StoreId([1; 16]), SessionId(1), LogGeneration(1));
    let appender = Appender::new(Ring::new(window, geometry), salt, LogPosition(0), Arc::new(page));
    let stamp = Stamp {
        lease_generation: LeaseGeneration(1),
        debit_blocks: 1,
        time: Timestamp(1),
        tag: None,
        is_synchronous: false,
    };
    println!(
        "{:>8} {:>12} {:>12} {:>8}   (ns, medians of {ROUNDS})",
        "bytes", "append", "bare copy", "ratio"
    );
    for bytes in [64, 128, 1024, 4096, 16 << 10, 64 << 10] {
        let payload = vec![7_u8; bytes];
        let count = BYTES_A_ROUND / entry_bytes(bytes);
        let mut append_ns = Vec::new();
        let mut bare_ns = Vec::new();
        for _ in 0..ROUNDS {
            appender.set_limit(geometry.ring_slots, appender.completed());
            let started = Instant::now();
            for _ in 0..count {
                let reservation = appender.reserve(appender.admit(bytes)?);
                let data = [UserSlice::from(&payload[..])];
                appender.append_write(reservation, InodeNumber(2), 0, &data, stamp)?;
            }
            append_ns.push(started.elapsed().as_nanos() as f64 / count as f64);
            let started = Instant::now();
            let memory = appender.ring().window();
            for n in 0..count {
                memory.write_through((n * entry_bytes(bytes) + HEADER_BYTES) as u64, &payload)?;
                memory.fence()?;
            }
            bare_ns.push(started.elapsed().as_nanos() as f64 / count as f64);
        }
        let median = |values: &mut Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (append, bare) = (median(&mut append_ns), median(&mut bare_ns));
        println!("{bytes:>8} {append:>12.1} {bare:>12.1} {:>8.2}", append / bare);
    }
    Ok(())
}
