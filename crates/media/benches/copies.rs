//! Cached against non-temporal copies into a ring on tmpfs, as the operation log makes them.
//!
//! Two questions: what an append costs its writer, and what it then costs the digest, which reads the same
//! bytes a little later on another core and copies them into an arena. The ring is larger or smaller than
//! the last-level cache; each append ends in the fence of medium `memory` (or of `pmem`, for streams).

use cuesta_format::entry::Crc32c;
use cuesta_media::persist::{copy_non_temporal, fence, store, store_through_summed};
use cuesta_media::{Mapping, Medium, UserSlice};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[derive(Clone, Copy)]
enum Way {
    Cached,
    RepMovsb,
    Library,
    Streamed,
    /// As the log copies what it is given on medium `memory`, and on `pmem`: checksummed on the way.
    Summed,
    SummedStreamed,
}

const WAYS: [(&str, Way); 6] = [
    ("cached", Way::Cached),
    ("rep movsb", Way::RepMovsb),
    ("library", Way::Library),
    ("streamed", Way::Streamed),
    ("summed", Way::Summed),
    ("and streamed", Way::SummedStreamed),
];

/// Appends `src` at `dst` and passes the fence.
#[inline(always)]
fn append(way: Way, dst: *mut u8, src: &[u8]) {
    // SAFETY: callers pass a place in a mapped ring with room for `src`.
    unsafe {
        match way {
            Way::Cached => {
                store(dst, src.as_ptr(), src.len());
            }
            Way::RepMovsb => rep_movsb(dst, src),
            Way::Library => std::ptr::copy_nonoverlapping(src.as_ptr(), dst, src.len()),
            Way::Streamed => {
                copy_non_temporal(dst, src.as_ptr(), src.len());
            }
            Way::Summed => summed(Medium::Memory, dst, src),
            Way::SummedStreamed => summed(Medium::Pmem, dst, src),
        }
    }
    match way {
        Way::Streamed | Way::SummedStreamed => fence(Medium::Pmem),
        _ => fence(Medium::Memory),
    }
}

unsafe fn summed(medium: Medium, dst: *mut u8, src: &[u8]) {
    let mut sum = Crc32c::new();
    // SAFETY: the caller's promise that `dst` has room.
    unsafe { store_through_summed(medium, dst, src.as_ptr(), src.len(), &mut sum) };
    black_box(sum.value());
}

#[cfg(target_arch = "x86_64")]
unsafe fn rep_movsb(dst: *mut u8, src: &[u8]) {
    // SAFETY: the caller's promise that `dst` has room.
    unsafe {
        core::arch::asm!("rep movsb", inout("rdi") dst => _, inout("rsi") src.as_ptr() => _,
            inout("rcx") src.len() => _, options(nostack, preserves_flags));
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn rep_movsb(dst: *mut u8, src: &[u8]) {
    // SAFETY: the caller's promise that `dst` has room.
    unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), dst, src.len()) }
}

/// Nanoseconds an append costs without readers; the best of five rounds.
fn alone(way: Way, ring: &Mapping, size: usize) -> f64 {
    let src = vec![7u8; size];
    let slots = ring.len() as usize / size;
    let rounds = (64 << 20) / size.max(1024);
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for index in 0..rounds {
            append(way, ring.as_ptr().wrapping_add(index % slots * size), black_box(&src));
        }
        best = best.min(start.elapsed().as_nanos() as f64 / rounds as f64);
    }
    best
}

/// The middle one of the times a batch took, as nanoseconds an append: other work on the machine does not count.
fn median(mut batches: Vec<u128>, batch: usize) -> f64 {
    batches.sort_unstable();
    batches.get(batches.len() / 2).map_or(f64::NAN, |time| *time as f64 / batch as f64)
}

/// (writer, reader) nanoseconds an append, with a digest that follows `lag` bytes behind on another core.
fn followed(way: Way, ring: &Mapping, arena: &Mapping, size: usize, lag: usize) -> (f64, f64) {
    let src = vec![7u8; size];
    let slots = ring.len() as usize / size;
    let rounds = (128 << 20) / size.max(1024);
    let batch = (lag / size).max(1);
    let (written, read) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut busy = Vec::new();
            let mut done = 0;
            while done + batch <= rounds {
                while (written.load(Ordering::Acquire) as usize) < done + batch {
                    std::hint::spin_loop();
                }
                let start = Instant::now();
                for index in done..done + batch {
                    // SAFETY: the place is inside the ring.
                    let bytes =
                        unsafe { UserSlice::new(ring.as_ptr().wrapping_add(index % slots * size), size) };
                    let at = (index * size) as u64 % (arena.len() - size as u64);
                    let _ = arena.write_user(at / 64 * 64, bytes);
                }
                busy.push(start.elapsed().as_nanos());
                done += batch;
                read.store(done as u64, Ordering::Release);
            }
            median(busy, batch)
        });
        let mut busy = Vec::new();
        let mut index = 0;
        while index < rounds {
            while index + batch > read.load(Ordering::Acquire) as usize + slots {
                std::hint::spin_loop();
            }
            let end = (index + batch).min(rounds);
            let start = Instant::now();
            for index in index..end {
                append(way, ring.as_ptr().wrapping_add(index % slots * size), black_box(&src));
            }
            busy.push(start.elapsed().as_nanos());
            index = end;
            written.store(index as u64, Ordering::Release);
        }
        (median(busy, batch), reader.join().unwrap_or(f64::NAN))
    })
}

fn main() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a tmpfs at /dev/shm");
    let create = |name: &str, len: u64| {
        Mapping::create(&directory.path().join(name), len, Medium::Memory, true).expect("room on the tmpfs")
    };
    for (name, medium) in [("memory", Medium::Memory), ("pmem", Medium::Pmem)] {
        let start = Instant::now();
        (0..1_000_000).for_each(|turn| fence(black_box((turn, medium)).1));
        println!("an idle fence of {name}: {:.1} ns", start.elapsed().as_nanos() as f64 / 1e6);
    }
    let arena = create("arena", 128 << 20);
    for ring_bytes in [8 << 20, 64 << 20] {
        let ring = create(&format!("ring-{ring_bytes}"), ring_bytes);
        println!("ring of {} MiB, ns an append: alone | writer / digest, 1 MiB behind", ring_bytes >> 20);
        for size in [64, 128, 256, 512, 1024, 4096, 8192, 16384, 65536] {
            print!("{size:6}");
            for (name, way) in WAYS {
                let (writer, reader) = followed(way, &ring, &arena, size, 1 << 20);
                print!("  {name} {:6.0} | {writer:6.0} /{reader:6.0}", alone(way, &ring, size));
            }
            println!();
        }
    }
}
