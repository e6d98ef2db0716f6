//! The messages between the kernel and a FUSE server, byte for byte (`linux/fuse.h`, protocol 7.31 and later). No I/O.
//!
//! Numbers are in the machine's own order. The kernel's name of a structure stands behind its name here.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The protocol's major version.
pub const MAJOR: u32 = 7;
/// The newest minor version this side knows.
pub const MINOR: u32 = 44;
/// The oldest it can speak: Linux 5.4 has it.
pub const MINOR_LEAST: u32 = 31;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Opcode {
    Lookup,
    Forget,
    GetAttributes,
    SetAttributes,
    ReadLink,
    SymbolicLink,
    MakeNode,
    MakeDirectory,
    Unlink,
    RemoveDirectory,
    Rename,
    Link,
    Open,
    Read,
    Write,
    StatFs,
    Release,
    FSync,
    SetExtended,
    GetExtended,
    ListExtended,
    RemoveExtended,
    Flush,
    Init,
    OpenDirectory,
    ReadDirectory,
    ReleaseDirectory,
    FSyncDirectory,
    GetLock,
    SetLock,
    SetLockWait,
    Create,
    Interrupt,
    Destroy,
    IoControl,
    BatchForget,
    Allocate,
    RenameFlagged,
    Seek,
    CopyRange,
    SyncFs,
    Temporary,
    Statx,
}

impl Opcode {
    /// The one with this number. The kernel is told that others do not exist.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Opcode> {
        Some(match number {
            1 => Opcode::Lookup,
            2 => Opcode::Forget,
            3 => Opcode::GetAttributes,
            4 => Opcode::SetAttributes,
            5 => Opcode::ReadLink,
            6 => Opcode::SymbolicLink,
            8 => Opcode::MakeNode,
            9 => Opcode::MakeDirectory,
            10 => Opcode::Unlink,
            11 => Opcode::RemoveDirectory,
            12 => Opcode::Rename,
            13 => Opcode::Link,
            14 => Opcode::Open,
            15 => Opcode::Read,
            16 => Opcode::Write,
            17 => Opcode::StatFs,
            18 => Opcode::Release,
            20 => Opcode::FSync,
            21 => Opcode::SetExtended,
            22 => Opcode::GetExtended,
            23 => Opcode::ListExtended,
            24 => Opcode::RemoveExtended,
            25 => Opcode::Flush,
            26 => Opcode::Init,
            27 => Opcode::OpenDirectory,
            28 => Opcode::ReadDirectory,
            29 => Opcode::ReleaseDirectory,
            30 => Opcode::FSyncDirectory,
            31 => Opcode::GetLock,
            32 => Opcode::SetLock,
            33 => Opcode::SetLockWait,
            35 => Opcode::Create,
            36 => Opcode::Interrupt,
            38 => Opcode::Destroy,
            39 => Opcode::IoControl,
            42 => Opcode::BatchForget,
            43 => Opcode::Allocate,
            45 => Opcode::RenameFlagged,
            46 => Opcode::Seek,
            47 => Opcode::CopyRange,
            50 => Opcode::SyncFs,
            51 => Opcode::Temporary,
            52 => Opcode::Statx,
            _ => return None,
        })
    }
}

/// Flags that the kernel and a server agree on when they begin (`FUSE_*` of `fuse_init_out.flags` and `flags2`).
pub mod init {
    /// Reads of one file may come beside each other.
    pub const ASYNC_READ: u64 = 1;
    /// Record locks are ours.
    pub const POSIX_LOCKS: u64 = 1 << 1;
    /// Inodes can be looked up by their numbers: `.` of one that the kernel does not know, and `..`.
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    /// Writes may be longer than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// The umask is applied here, where default access lists are known.
    pub const DONT_MASK: u64 = 1 << 6;
    /// `flock` is ours.
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    /// A cached read looks whether the attributes still hold.
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    /// Direct reads and writes may come beside each other.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Names of one directory may be looked up beside each other.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// The kernel checks access lists.
    pub const POSIX_ACL: u64 = 1 << 20;
    /// `max_pages` counts.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// Targets of symbolic links may be kept.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// Set-id bits that writing takes are taken here.
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// Attributes are set with [`super::SetExtendedIn`] in full.
    pub const SETXATTR_EXT: u64 = 1 << 29;
    /// `flags2` counts.
    pub const INIT_EXT: u64 = 1 << 30;
    /// Files opened past the cache may be mapped and shared.
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// Bits of [`SetAttributesIn::valid`].
pub mod valid {
    /// The mode.
    pub const MODE: u32 = 1;
    /// The owner.
    pub const UID: u32 = 1 << 1;
    /// The group.
    pub const GID: u32 = 1 << 2;
    /// The size.
    pub const SIZE: u32 = 1 << 3;
    /// The time of last access,
    pub const ACCESSED: u32 = 1 << 4;
    /// and of last change of content.
    pub const MODIFIED: u32 = 1 << 5;
    /// The handle.
    pub const HANDLE: u32 = 1 << 6;
    /// The first is the present,
    pub const ACCESSED_NOW: u32 = 1 << 7;
    /// the second is.
    pub const MODIFIED_NOW: u32 = 1 << 8;
    /// Set-id bits go with it (from `HANDLE_KILLPRIV_V2` on): its sender may not keep them.
    pub const TAKES_SET_ID: u32 = 1 << 11;
    /// All attributes that a request can set.
    pub const ANYTHING: u32 = MODE | UID | GID | SIZE | ACCESSED | MODIFIED;
}

/// [`LockIn::flags`]: it is one of `flock`.
pub const LOCK_FLOCK: u32 = 1;
/// [`OpenOut::open_flags`]: it is read and written past the kernel's cache.
pub const OPEN_DIRECT: u32 = 1;
/// [`OpenOut::open_flags`]: the kernel's cached content of the file still holds.
pub const OPEN_KEEP_CACHE: u32 = 1 << 1;
/// [`ReadIn::read_flags`]: it says who locks, as past the cache each call of a program does.
pub const READ_OF_CALL: u32 = 1 << 1;
/// [`WriteIn::write_flags`]: written from the cache, by an unknown process.
pub const WRITE_FROM_CACHE: u32 = 1;
/// [`WriteIn::write_flags`]: it says who locks, as past the cache each call of a program does.
pub const WRITE_PAST_CACHE: u32 = 1 << 1;
/// [`GetAttributesIn::flags`]: asked for a call by an open file that wants to know its size, not for `stat`.
pub const ATTRIBUTES_OF_HANDLE: u32 = 1;
/// [`WriteIn::write_flags`]: the writer does not keep the file's set-id bits.
pub const WRITE_TAKES_SET_ID: u32 = 1 << 2;

/// Declares structures of the protocol: plain words, no padding.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? } = $bytes:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        #[allow(missing_docs, reason = "the fields are the kernel's")]
        pub struct $name { $(pub $field: $type),* }
        const _: () = assert!(size_of::<$name>() == $bytes);
    )*};
}

structures! {
    /// In front of every request (`fuse_in_header`).
    InHeader {
        length: u32, opcode: u32, unique: u64, node: u64, uid: u32, gid: u32, pid: u32,
        extension_length: u16, padding: u16,
    } = 40;
    /// In front of every answer and notice (`fuse_out_header`).
    OutHeader { length: u32, error: i32, unique: u64 } = 16;
    /// `fuse_attr`.
    Attributes {
        inode: u64, size: u64, blocks: u64, accessed: u64, modified: u64, changed: u64,
        accessed_ns: u32, modified_ns: u32, changed_ns: u32, mode: u32, links: u32, uid: u32, gid: u32,
        device: u32, block_size: u32, flags: u32,
    } = 88;
    /// `fuse_entry_out`.
    EntryOut {
        node: u64, generation: u64, entry_valid: u64, attributes_valid: u64, entry_valid_ns: u32,
        attributes_valid_ns: u32, attributes: Attributes,
    } = 128;
    /// `fuse_attr_out`.
    AttributesOut { valid: u64, valid_ns: u32, padding: u32, attributes: Attributes } = 104;
    /// `fuse_init_in`, in full.
    InitIn { major: u32, minor: u32, read_ahead_max: u32, flags: u32, flags2: u32, unused: [u32; 11] } = 64;
    /// `fuse_init_out`.
    InitOut {
        major: u32, minor: u32, read_ahead_max: u32, flags: u32, background_max: u16, congestion: u16,
        write_max: u32, time_grain_ns: u32, pages_max: u16, map_alignment: u16, flags2: u32, unused: [u32; 7],
    } = 64;
    /// `fuse_forget_in`.
    ForgetIn { lookups: u64 } = 8;
    /// `fuse_batch_forget_in`.
    BatchForgetIn { count: u32, padding: u32 } = 8;
    /// `fuse_forget_one`.
    ForgetOne { node: u64, lookups: u64 } = 16;
    /// `fuse_getattr_in`.
    GetAttributesIn { flags: u32, padding: u32, handle: u64 } = 16;
    /// `fuse_statx_in`.
    StatxIn { get_flags: u32, reserved: u32, handle: u64, flags: u32, mask: u32 } = 24;
    /// `fuse_sx_time`.
    StatxTime { seconds: i64, nanoseconds: u32, reserved: i32 } = 16;
    /// `fuse_statx_out`.
    StatxOut {
        valid: u64, valid_ns: u32, flags: u32, spare: [u64; 2], mask: u32, block_size: u32, attributes: u64,
        links: u32, uid: u32, gid: u32, mode: u16, padding: u16, inode: u64, size: u64, blocks: u64,
        attributes_mask: u64, accessed: StatxTime, born: StatxTime, changed: StatxTime, modified: StatxTime,
        device: [u32; 2], of_device: [u32; 2], spare_too: [u64; 14],
    } = 288;
    /// `fuse_setattr_in`.
    SetAttributesIn {
        valid: u32, padding: u32, handle: u64, size: u64, lock_owner: u64, accessed: u64, modified: u64,
        changed: u64, accessed_ns: u32, modified_ns: u32, changed_ns: u32, mode: u32, unused: u32, uid: u32,
        gid: u32, unused_too: u32,
    } = 88;
    /// `fuse_mknod_in`.
    MakeNodeIn { mode: u32, device: u32, umask: u32, padding: u32 } = 16;
    /// `fuse_mkdir_in`.
    MakeDirectoryIn { mode: u32, umask: u32 } = 8;
    /// `fuse_rename_in`.
    RenameIn { new_directory: u64 } = 8;
    /// `fuse_rename2_in`.
    RenameFlaggedIn { new_directory: u64, flags: u32, padding: u32 } = 16;
    /// `fuse_link_in`.
    LinkIn { node: u64 } = 8;
    /// `fuse_open_in`.
    OpenIn { flags: u32, open_flags: u32 } = 8;
    /// `fuse_open_out`.
    OpenOut { handle: u64, open_flags: u32, padding: u32 } = 16;
    /// `fuse_create_in`.
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 } = 16;
    /// `fuse_read_in`.
    ReadIn {
        handle: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    } = 40;
    /// `fuse_write_in`.
    WriteIn {
        handle: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    } = 40;
    /// `fuse_write_out`.
    WriteOut { size: u32, padding: u32 } = 8;
    /// `fuse_release_in`.
    ReleaseIn { handle: u64, flags: u32, release_flags: u32, lock_owner: u64 } = 24;
    /// `fuse_flush_in`.
    FlushIn { handle: u64, unused: u32, padding: u32, lock_owner: u64 } = 24;
    /// `fuse_fsync_in`.
    FSyncIn { handle: u64, flags: u32, padding: u32 } = 16;
    /// `fuse_setxattr_in`, in full.
    SetExtendedIn { size: u32, flags: u32, set_flags: u32, padding: u32 } = 16;
    /// `fuse_getxattr_in` and `fuse_getxattr_out`.
    ExtendedSize { size: u32, padding: u32 } = 8;
    /// `fuse_lk_in`.
    LockIn {
        handle: u64, owner: u64, start: u64, end: u64, kind: u32, pid: u32, flags: u32, padding: u32,
    } = 48;
    /// `fuse_lk_out`.
    LockOut { start: u64, end: u64, kind: u32, pid: u32 } = 24;
    /// `fuse_ioctl_in`.
    IoControlIn { handle: u64, flags: u32, request: u32, argument: u64, size_in: u32, size_out: u32 } = 32;
    /// `fuse_ioctl_out`.
    IoControlOut { result: i32, flags: u32, in_parts: u32, out_parts: u32 } = 16;
    /// `fuse_interrupt_in`.
    InterruptIn { unique: u64 } = 8;
    /// `fuse_fallocate_in`.
    AllocateIn { handle: u64, offset: u64, length: u64, mode: u32, padding: u32 } = 32;
    /// `fuse_lseek_in`.
    SeekIn { handle: u64, offset: u64, whence: u32, padding: u32 } = 24;
    /// `fuse_lseek_out`.
    SeekOut { offset: u64 } = 8;
    /// `fuse_copy_file_range_in`.
    CopyRangeIn {
        handle_in: u64, offset_in: u64, node_out: u64, handle_out: u64, offset_out: u64, length: u64, flags: u64,
    } = 56;
    /// `fuse_statfs_out`.
    StatFsOut {
        blocks: u64, free: u64, available: u64, files: u64, files_free: u64, block_size: u32, name_max: u32,
        fragment_size: u32, padding: u32, spare: [u32; 6],
    } = 80;
    /// In front of a name in a listing (`fuse_dirent`).
    DirectoryEntry { inode: u64, offset: u64, name_length: u32, kind: u32 } = 24;
}
