//! What is done with the bytes of each target.

use crate::script;
use crate::world::World;
use cuesta_format::account::Account;
use cuesta_format::entry::{FLAG_TAGGED, HEADER_BYTES, Header, Salt, crc32c};
use cuesta_format::parcel::Parcel;
use cuesta_format::session_table::{SessionRecord, TableHead};
use cuesta_format::superblock::{SUPERBLOCK_BYTES, Superblock};
use cuesta_format::wire::{self, Question, Request, Response};
use cuesta_format::{ArenaId, BlockAddress, CallTag, Extent, Geometry, LogPosition, Operation};
use cuesta_oplog::{ScanStep, Scanner};
use zerocopy::{FromZeros, IntoBytes};

/// Fields of an entry's header, by their bytes.
const CHECKSUM: usize = 0;
const BODY_CHECKSUM: usize = 4;
const BODY_BYTES: usize = 8;
const POSITION: usize = 16;

/// A log as it is, and with the checksums it should have.
pub fn log_scan(bytes: &[u8]) {
    let Some((head, log)) = bytes.split_first_chunk::<2>() else { return };
    let salt = Salt::from_bits(u32::from(head[0]));
    let start = LogPosition(u64::from(head[1]) * 64);
    let geometry = Geometry::default();
    scan(log, start, salt, &geometry);
    let mut log = log.to_vec();
    mend(&mut log, start, salt);
    scan(&log, start, salt, &geometry);
}

fn scan(log: &[u8], start: LogPosition, salt: Salt, geometry: &Geometry) {
    let mut scanner = Scanner::new(log, start, salt, geometry);
    loop {
        let before = scanner.position();
        let ScanStep::Entry(header, body) = scanner.step() else {
            assert_eq!(scanner.position(), before);
            return;
        };
        assert!(scanner.position() > before && scanner.position().0 - start.0 <= log.len() as u64);
        if let Ok(operation) = Operation::decode(header.fields(), body) {
            assert_eq!(operation.kind(), header.fields().kind);
            let mut written = vec![0; operation.body_bytes()];
            operation.encode_body(&mut written);
            // It may have had bytes behind it that nobody reads.
            let plain = header.fields().flags & !FLAG_TAGGED;
            let own = Header { body_bytes: written.len() as u32, flags: plain, ..*header.fields() };
            assert_eq!(Operation::decode(&own, &written).as_ref(), Ok(&operation));
            if let Some(tag) = CallTag::of(header.fields(), body) {
                written.extend(tag.encode());
                let tagged = Header { body_bytes: written.len() as u32, ..*header.fields() };
                assert_eq!(CallTag::of(&tagged, &written), Some(tag));
                assert_eq!(Operation::decode(&tagged, &written).as_ref(), Ok(&operation));
            }
        }
    }
}

/// Gives each entry the position it is at, and the checksums that fit.
fn mend(log: &mut [u8], start: LogPosition, salt: Salt) {
    let mut at = 0;
    while let Some(entry) = log.get_mut(at..).filter(|rest| rest.len() >= HEADER_BYTES) {
        let position = start.0 + at as u64;
        entry[POSITION..POSITION + 8].copy_from_slice(&position.to_le_bytes());
        let room = entry.len() - HEADER_BYTES;
        let said = u32::from_le_bytes([entry[BODY_BYTES], entry[BODY_BYTES + 1], 0, 0]) as usize;
        let body = said.min(room);
        entry[BODY_BYTES..BODY_BYTES + 4].copy_from_slice(&(body as u32).to_le_bytes());
        let checksum = crc32c(&entry[HEADER_BYTES..HEADER_BYTES + body]);
        entry[BODY_CHECKSUM..BODY_CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
        let checksum = crc32c(&entry[BODY_CHECKSUM..HEADER_BYTES]) ^ salt.to_bits();
        entry[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
        at += (HEADER_BYTES + body).next_multiple_of(HEADER_BYTES);
    }
}

/// A script of a hostile session.
pub fn digest(bytes: &[u8]) {
    script::decode(bytes).fold(World::new(), World::step).finish();
}

/// Questions, one behind the other, each behind its length.
pub fn messages(bytes: &[u8]) {
    let mut world = World::new();
    let mut rest = bytes;
    if let Some(head) = bytes.first_chunk() {
        let _ = wire::frame_length(*head);
    }
    // The version in a frame's head would keep most from being tried at all.
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length));
        let (content, behind) = behind.split_at(length.min(behind.len()));
        rest = behind;
        let Ok(Question { request, .. }) = wire::decode::<Question<Request>>(content) else { continue };
        let ends = matches!(request, Request::Detach);
        // Who asks for what happens waits for it.
        let request = match request {
            Request::Trace { from, .. } => Request::Trace { from, wait_ms: 0 },
            other => other,
        };
        let answer = world.ask(&request);
        let mut frame = Vec::new();
        wire::encode(&answer, &mut frame).expect("an answer fits a frame");
        if ends {
            break;
        }
    }
    world.finish();
}

/// The superblock and the session table's records, as they are and with the checksums they should have.
pub fn superblock(bytes: &[u8]) {
    if let Ok(found) = Superblock::decode(bytes) {
        compute_with(&found.geometry);
    }
    let mut mended = [0; SUPERBLOCK_BYTES];
    let taken = bytes.len().min(SUPERBLOCK_BYTES);
    mended[..taken].copy_from_slice(&bytes[..taken]);
    let checksum = crc32c(&mended[12..]);
    mended[8..12].copy_from_slice(&checksum.to_le_bytes());
    if let Ok(found) = Superblock::decode(&mended) {
        compute_with(&found.geometry);
        assert_eq!(Superblock::decode(&found.encode()[..]), Ok(found));
    }
    let _ = TableHead::decode(bytes);
    let _ = SessionRecord::decode(bytes);
    if let Some((_, rest)) = bytes.split_first_chunk::<4>() {
        let mut mended = crc32c(rest).to_le_bytes().to_vec();
        mended.extend(rest);
        if let Some((sequence, head)) = TableHead::decode(&mended) {
            assert_eq!(TableHead::decode(&head.encode(sequence)), Some((sequence, head)));
        }
        if let Some((sequence, record)) = SessionRecord::decode(&mended) {
            let mut written = Vec::new();
            record.encode(sequence, &mut written);
            assert_eq!(SessionRecord::decode(&written), Some((sequence, record)));
        }
    }
}

fn compute_with(geometry: &Geometry) {
    let end = BlockAddress(geometry.nvm_bytes - 4096);
    assert!(geometry.entry_bytes_max() > 0 && geometry.overlap_slots() <= geometry.ring_slots);
    assert!(geometry.arenas_max() > 0 && geometry.arena_blocks() > 0);
    assert!(geometry.slot(LogPosition(u64::MAX)) < geometry.ring_slots);
    assert!(geometry.ring_offset(LogPosition(u64::MAX)) < geometry.ring_bytes());
    let ArenaId(_) = geometry.arena(end);
    assert!(geometry.arena_offset(end) < geometry.arena_bytes);
}

/// What LibFS is answered, and the parcels in it.
pub fn answers(bytes: &[u8]) {
    read_parcel(bytes.to_vec());
    match wire::decode::<Response>(bytes) {
        Ok(Response::Granted { ahead, .. } | Response::Ahead(ahead)) => read_parcel(ahead),
        Ok(Response::Attached(welcome)) => read_parcel(welcome.ahead),
        _ => {}
    }
}

fn read_parcel(bytes: Vec<u8>) {
    let mut places = Vec::new();
    let Ok(parcel) = Parcel::open(bytes, |_, at| places.push(at)) else { return };
    for at in places {
        let item = parcel.item(at).expect("an item that was seen");
        let extents: Vec<Extent> = item.extents().collect();
        let _ = (item.record(), item.mode(), item.target().len(), extents.len());
        item.names().for_each(|(name, inode, kind)| drop((name.to_vec(), inode, kind)));
    }
}

/// What processes of other users ask, and are answered.
pub fn served(bytes: &[u8]) {
    if let Ok(request) = postcard::from_bytes::<cuesta_served::Request<'_>>(bytes) {
        let written = postcard::to_stdvec(&request).expect("what was read can be written");
        assert_eq!(postcard::from_bytes::<cuesta_served::Request<'_>>(&written), Ok(request));
    }
    if let Ok(response) = postcard::from_bytes::<cuesta_served::Response>(bytes) {
        postcard::to_stdvec(&response).expect("what was read can be written");
    }
}

/// The account of a run, which any process of it may have written.
pub fn account(bytes: &[u8]) {
    let Ok(mut account) = Account::new_box_zeroed() else { return };
    let taken = bytes.len().min(cuesta_format::account::ACCOUNT_BYTES);
    account.as_mut_bytes()[..taken].copy_from_slice(&bytes[..taken]);
    let _ = account.is_current();
    let calls = account.counted_calls();
    let programs = account.counted_programs();
    if let Some(program) = account.program(bytes) {
        account.executes(program);
        account.did_not_execute(program);
        account.misses_sites(program, usize::MAX);
    }
    for call in &calls {
        account.count(call.kind, programs.first().map(|program| program.index), || bytes.to_vec());
        // The same once more, by whom it was before.
        for (program, about) in &call.examples {
            account.count(call.kind, Some(*program), || about.clone());
        }
    }
}
