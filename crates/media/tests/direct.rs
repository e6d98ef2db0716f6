//! Writing past the kernel's pages, by way of a real file.

use cuesta_media::{AccessError, DIRECT_BYTES, DirectWriter, Mapping, Medium, Piece, open_direct};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

const BLOCKS: u64 = 8;

/// A file to write to and a mapping to write from, which numbers its blocks from 1.
fn place(folder: &Path) -> Option<(OwnedFd, Mapping)> {
    let path = folder.join("file");
    std::fs::write(&path, vec![0; (BLOCKS * DIRECT_BYTES) as usize]).unwrap();
    let mapping =
        Mapping::create(&folder.join("memory"), BLOCKS * DIRECT_BYTES, Medium::Block, true).unwrap();
    for block in 0..BLOCKS {
        mapping.write(block * DIRECT_BYTES, &[block as u8 + 1; DIRECT_BYTES as usize]).unwrap();
    }
    let file = open_direct(&path).unwrap();
    if file.is_none() {
        println!("skipped: the file system of {} takes no direct writes", folder.display());
    }
    file.map(|file| (file, mapping))
}

fn piece(from: u64, blocks: u64, to: u64) -> Piece {
    Piece { from: from * DIRECT_BYTES, bytes: blocks * DIRECT_BYTES, to: to * DIRECT_BYTES }
}

/// The number that each block holds.
fn numbers(folder: &Path) -> Vec<u8> {
    let bytes = std::fs::read(folder.join("file")).unwrap();
    let blocks = bytes.chunks(DIRECT_BYTES as usize);
    blocks.map(|block| if block.iter().all(|&byte| byte == block[0]) { block[0] } else { u8::MAX }).collect()
}

/// Awake and asleep.
#[test]
fn pieces_arrive_where_they_should_however_they_are_waited_for() {
    for awake in [Duration::from_secs(1), Duration::ZERO] {
        let folder = tempfile::tempdir().unwrap();
        let Some((file, mapping)) = place(folder.path()) else { return };
        let writer = DirectWriter::new(awake).unwrap();
        writer.write(&file, &mapping, &[piece(6, 2, 6), piece(0, 1, 0)]).unwrap();
        assert_eq!(numbers(folder.path()), [1, 0, 0, 0, 0, 0, 7, 8]);
        writer.write(&file, &mapping, &[piece(1, 3, 2)]).unwrap();
        assert_eq!(numbers(folder.path()), [1, 0, 2, 3, 4, 0, 7, 8]);
    }
}

#[test]
fn what_is_not_taken_is_an_error_and_the_next_write_knows_nothing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some((file, mapping)) = place(folder.path()) else { return };
    let writer = DirectWriter::new(Duration::from_secs(1)).unwrap();
    let read_only = File::open(folder.path().join("file")).unwrap();
    let refused = writer.write(&read_only, &mapping, &[piece(0, 1, 0)]);
    assert!(matches!(refused, Err(AccessError::Unwritten(_))), "{refused:?}");
    let outside = writer.write(&file, &mapping, &[piece(0, 1, 0), piece(BLOCKS, 1, 1)]);
    assert!(matches!(outside, Err(AccessError::OutOfBounds { .. })), "{outside:?}");
    writer.write(&file, &mapping, &[piece(2, 1, 3)]).unwrap();
    assert_eq!(numbers(folder.path()), [0, 0, 0, 3, 0, 0, 0, 0]);
}
