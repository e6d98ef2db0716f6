use super::*;
use crate::entry::FLAG_TAGGED;
use crate::{
    BLOCK_BYTES, BlockAddress, CallSlot, CallTag, LeaseGeneration, LogGeneration, LogPosition, SessionId,
    Timestamp,
};

fn round_trip(operation: Operation<'_>) {
    let mut body = vec![0; operation.body_bytes()];
    operation.encode_body(&mut body);
    let header = Header {
        kind: operation.kind(),
        flags: operation.flags(),
        body_bytes: body.len() as u32,
        debit_blocks: 0,
        position: LogPosition(0),
        lease_generation: LeaseGeneration(0),
        inode: operation.inode(),
        argument: operation.argument(),
        time: Timestamp(0),
        acknowledged: LogPosition(0),
    };
    assert_eq!(Operation::decode(&header, &body), Ok(operation));
    if operation != Operation::Void {
        let tag = CallTag { slot: CallSlot::default(), process: 1, number: 2 };
        let body = [&body[..], &tag.encode()].concat();
        let tagged = Header { flags: header.flags | FLAG_TAGGED, body_bytes: body.len() as u32, ..header };
        assert_eq!(Operation::decode(&tagged, &body), Ok(operation));
        assert_eq!(CallTag::of(&tagged, &body), Some(tag));
    }
    for cut in 0..body.len() {
        let header = Header { body_bytes: cut as u32, ..header };
        let cut_short = Operation::decode(&header, &body[..cut]);
        // A shortened body of these is still whole: the checksum covers the length.
        let is_elastic = matches!(
            operation,
            Operation::Write { .. }
                | Operation::SetExtended { .. }
                | Operation::SetAccessList { .. }
                | Operation::CreateUnnamed { list: [_, ..], .. }
                | Operation::RemoveExtended { .. }
        );
        assert!(is_elastic || cut_short.is_err());
    }
}

#[test]
fn every_operation_survives_its_codec() {
    let inode = InodeNumber(12);
    let parent = InodeNumber(1);
    round_trip(Operation::Void);
    let generation = LogGeneration(0x0102_0304_0506_0708);
    let dependency = LogDependency { session: SessionId(9), generation, position: LogPosition(1 << 40) };
    round_trip(Operation::DependOn { dependency });
    round_trip(Operation::ForgetCaller { caller: Caller { user: 1000, id: CallerId([3; 16]) } });
    round_trip(Operation::Write { inode, offset: 77, data: b"some bytes" });
    let mut body = Vec::new();
    let run = BlockRun { address: BlockAddress(BLOCK_BYTES), blocks: 1 };
    StagedWrite::encode(&[run], Some(&[5]), b"", b"tail", &mut body);
    let staged = StagedWrite::decode(0, &body).unwrap();
    round_trip(Operation::WriteStaged { inode, offset: 0, staged });
    round_trip(Operation::Truncate { inode, size: 1 << 40 });
    round_trip(Operation::Create {
        parent,
        inode,
        mode: 0o120_777,
        uid: 1,
        gid: 2,
        device: 3,
        name: b"link",
        target: b"../elsewhere",
        list: b"",
    });
    round_trip(Operation::Create {
        parent,
        inode,
        mode: 0o100_640,
        uid: 1,
        gid: 2,
        device: 0,
        name: b"file",
        target: b"",
        list: b"a default list",
    });
    round_trip(Operation::Link { parent, inode, name: b"other" });
    round_trip(Operation::Unlink { parent, inode, name: b"other", orphan: true });
    round_trip(Operation::Rename {
        parent,
        name: b"a",
        new_parent: InodeNumber(3),
        new_name: b"b",
        inode,
        replaced: InodeNumber(4),
        orphan: true,
        exchange: false,
    });
    round_trip(Operation::SetAttributes {
        inode,
        attributes: Attributes { uid: Some(3), modified: Some(Timestamp(-5)), ..Attributes::default() },
    });
    round_trip(Operation::Release { inode });
    round_trip(Operation::Clear { inode, offset: 7, length: 1 << 40, grow: true });
    round_trip(Operation::Shift { inode, offset: 4096, length: 8192, insert: true });
    let unnamed = |exclusive, list| Operation::CreateUnnamed {
        parent,
        exclusive,
        inode,
        mode: 0o100_600,
        uid: 1,
        gid: 2,
        list,
    };
    round_trip(unnamed(true, b""));
    round_trip(unnamed(false, b"a default list"));
    round_trip(Operation::SetAccessList { inode, mode: 0o2750, list: b"a list" });
    round_trip(Operation::SetAccessList { inode, mode: 0o640, list: b"" });
    round_trip(Operation::SetExtended { inode, name: b"user.a", value: b"" });
    round_trip(Operation::SetExtended { inode, name: b"security.capability", value: b"\0a value" });
    round_trip(Operation::RemoveExtended { inode, name: b"user.a" });
}

#[test]
fn bodies_of_extended_attributes_are_not_trusted() {
    let header = Header {
        kind: EntryKind::SetExtended,
        flags: 0,
        body_bytes: 8,
        debit_blocks: 0,
        position: LogPosition(0),
        lease_generation: LeaseGeneration(0),
        inode: InodeNumber(12),
        argument: 0,
        time: Timestamp(0),
        acknowledged: LogPosition(0),
    };
    let decode = |argument, body: &[u8]| {
        let header = Header { argument, body_bytes: body.len() as u32, ..header };
        Operation::decode(&header, body).map(drop)
    };
    assert_eq!(decode(6, b"user.ab"), Ok(()));
    assert_eq!(decode(0, b"user.ab"), Err(OperationError::ExtendedName));
    assert_eq!(decode(8, b"user.ab"), Err(OperationError::Length));
    assert_eq!(decode(u64::MAX, b"user.ab"), Err(OperationError::Length));
    assert_eq!(decode(6, b"us\0r.ab"), Err(OperationError::ExtendedName));
    assert_eq!(decode(256, &[b'x'; 256]), Err(OperationError::ExtendedName));
    assert_eq!(decode(1, &vec![b'x'; EXTENDED_VALUE_BYTES_MAX + 1]), Ok(()));
    assert_eq!(decode(1, &vec![b'x'; EXTENDED_VALUE_BYTES_MAX + 2]), Err(OperationError::Length));
}

#[test]
fn names_a_directory_cannot_hold_are_refused() {
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", &[b'x'; 256]] {
        assert!(!is_entry_name(name));
    }
    assert!(is_entry_name(&[0xff; 255]));
}
