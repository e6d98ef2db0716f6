//! Attributes and extended attributes of inodes, and totals of the store.

use super::contents::may_read;
use crate::door::call::Call;
use crate::door::dispatch::Door;
use crate::door::refusal::{Refusal, stale};
use crate::door::state::kinds::is_in_chown;
use crate::door::who;
use crate::kernel::abi::{
    ATTRIBUTES_OF_HANDLE, Attributes, AttributesOut, ExtendedSize, GetAttributesIn, SetAttributesIn,
    SetExtendedIn, StatFsOut, StatxIn, StatxOut, StatxTime, valid,
};
use cuesta_format::{FileKind, InodeNumber, InodeRecord, Timestamp};
use cuesta_libfs::{Answer, CallByNumber, Credentials, ExtendedFlags, SetAttributes, SetTime, Target};

/// Bytes in a block of the store, and in what the kernel counts blocks in.
const BLOCK_BYTES: u32 = 4096;
const UNIT_BYTES: u64 = 512;
/// Bytes of a name at most.
const NAME_BYTES_MAX: u32 = 255;
/// The attribute that the kernel removes from a file together with its set-id bits.
const CAPABILITY: &[u8] = b"security.capability";
/// [`SetExtendedIn::set_flags`]: the process that sets this access list is not of the file's group.
const LIST_TAKES_SET_GID: u32 = 1;

/// The attributes that the kernel is told of an inode.
pub(in crate::door) fn shown(record: &InodeRecord) -> Attributes {
    let seconds = |time: Timestamp| time.seconds() as u64;
    Attributes {
        inode: record.inode.0,
        size: record.size,
        blocks: record.blocks * (u64::from(BLOCK_BYTES) / UNIT_BYTES),
        accessed: seconds(record.accessed),
        modified: seconds(record.modified),
        changed: seconds(record.changed),
        accessed_ns: record.accessed.nanoseconds(),
        modified_ns: record.modified.nanoseconds(),
        changed_ns: record.changed.nanoseconds(),
        mode: record.mode,
        links: record.links,
        uid: record.uid,
        gid: record.gid,
        device: record.device as u32,
        block_size: BLOCK_BYTES,
        flags: 0,
    }
}

impl Door {
    pub(in crate::door) fn get_attributes(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let GetAttributesIn { flags, handle, .. } = call.arguments.structure()?;
        let of_handle = (flags & ATTRIBUTES_OF_HANDLE != 0).then_some(handle);
        let (record, (valid, valid_ns)) = self.attributes_of(call, of_handle)?;
        call.answer.put(&AttributesOut { valid, valid_ns, padding: 0, attributes: shown(&record) });
        Ok(())
    }

    /// The same with the time of birth.
    pub(in crate::door) fn statx(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let StatxIn { get_flags, handle, .. } = call.arguments.structure()?;
        let of_handle = (get_flags & ATTRIBUTES_OF_HANDLE != 0).then_some(handle);
        let (record, (valid, valid_ns)) = self.attributes_of(call, of_handle)?;
        let Attributes { size, blocks, mode, block_size, .. } = shown(&record);
        let time = |time: Timestamp| StatxTime {
            seconds: time.seconds(),
            nanoseconds: time.nanoseconds(),
            reserved: 0,
        };
        call.answer.put(&StatxOut {
            valid,
            valid_ns,
            mask: libc::STATX_BASIC_STATS | libc::STATX_BTIME,
            block_size,
            links: record.links,
            uid: record.uid,
            gid: record.gid,
            mode: mode as u16,
            inode: record.inode.0,
            size,
            blocks,
            accessed: time(record.accessed),
            born: time(record.born),
            changed: time(record.changed),
            modified: time(record.modified),
            device: [libc::major(record.device), libc::minor(record.device)],
            ..StatxOut::default()
        });
        Ok(())
    }

    /// An inode's attributes, and how long they hold. They hold for the kernel's cached content, too: so pages that were read
    /// before another session could change them go first. But where the kernel sees by the size that they must go it is left
    /// to it: an answer to a question of before it was made to forget content does not count for it, and it would
    /// go on with the size it knew.
    ///
    /// Where stores through mappings may have turned holes into data, it is written back before blocks are counted, and the
    /// answer holds no longer. The kernel asks by an open file before it reads its own pages, or looks for the
    /// end. While such a read would move the time of last access, no answer holds, so that the kernel asks again.
    fn attributes_of(
        &self,
        call: &Call<'_>,
        of_handle: Option<u64>,
    ) -> Result<(InodeRecord, (u64, u32)), Refusal> {
        let inode = call.inode();
        let mut ignores = false;
        if let Some(file) = of_handle.and_then(|handle| self.files.get(handle).ok()) {
            if may_read(&file) {
                self.client.note_read(&file).map_err(stale)?;
            }
        } else if self.may_hide_data(inode) {
            let (record, _) = self.client.attributes(inode).map_err(stale)?.value;
            // Where the size is new the kernel must take the answer, and writes pages back by itself.
            ignores = self.known.is_told(&record);
            if ignores {
                self.write_back_all_holes(call)?;
            }
        }
        let Answer { value: (record, tenure), is_own } = self.client.attributes(inode).map_err(stale)?;
        if self.known.must_forget_content(&record, tenure, ignores) {
            self.device.forget_content(inode);
            self.known.forgot_content(inode);
        }
        // No notice tells of changes of a file that SharedFS answers for, or that programs share by mappings, nor of a
        // stand-in for another inode.
        let is_told = is_own && !record.mapped && !call.node().is_stand_in() && !self.may_hide_data(inode);
        let is_told = is_told && !self.may_move_access(&record);
        let holds = if !is_told { (0, 0) } else { self.keeping.attributes() };
        Ok((record, holds))
    }

    fn may_move_access(&self, record: &InodeRecord) -> bool {
        let may_be_read = || {
            // Where a symbolic link leads the kernel keeps for good.
            let is_link = record.kind() == FileKind::Symlink;
            is_link || self.known.pages(record.inode, |pages| pages.may_be_read()) == Some(true)
        };
        self.client.is_access_due(record) && may_be_read()
    }

    fn may_hide_data(&self, inode: InodeNumber) -> bool {
        self.known.pages(inode, |pages| pages.may_hide_data()) == Some(true)
    }

    fn write_back_all_holes(&self, call: &Call<'_>) -> Result<(), Refusal> {
        let file = self.client.open(&who::onlooker(), call.base(), b"", libc::O_RDONLY, 0).map_err(stale)?;
        self.write_back_holes(call, &file, 0);
        self.close(file);
        Ok(())
    }

    pub(in crate::door) fn set_attributes(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let asked: SetAttributesIn = call.arguments.structure()?;
        let has = |bit: u32| asked.valid & bit != 0;
        if has(valid::SIZE) {
            let size = i64::try_from(asked.size).map_err(|_| Refusal(libc::EFBIG))?;
            let file = if has(valid::HANDLE) { Some(self.files.get(asked.handle)?) } else { None };
            if has(valid::TAKES_SET_ID) {
                self.take_set_id(call)?;
            }
            match file.filter(|file| file.check_writable().is_ok()) {
                Some(file) => self.client.truncate_open(&file, size)?,
                None => {
                    let truncate = CallByNumber::Truncate { inode: call.inode(), size };
                    self.client.call_by_number(&self.writer(call), &truncate).map_err(stale)?;
                }
            }
        }
        let time = |set: u32, now: u32, seconds: u64, nanoseconds: u32| match (has(set), has(now)) {
            (false, _) => SetTime::Omit,
            (true, true) => SetTime::Now,
            (true, false) => SetTime::To(Timestamp::new(seconds as i64, nanoseconds)),
        };
        // The time of a truncation is LibFS's.
        let is_of_size = has(valid::SIZE) && has(valid::MODIFIED_NOW);
        // So Linux tells of a change of owner that names neither owner nor group, and of a write that takes set-id bits.
        let names_nothing = !has(valid::ANYTHING);
        let is_write = names_nothing && !self.is_chown(call);
        if is_write && !who::keeps_set_id(&call.header) {
            self.take_set_id(call)?;
        }
        let set = SetAttributes {
            mode: has(valid::MODE).then_some(asked.mode & 0o7777),
            uid: has(valid::UID).then_some(asked.uid),
            gid: has(valid::GID).then_some(asked.gid),
            accessed: time(valid::ACCESSED, valid::ACCESSED_NOW, asked.accessed, asked.accessed_ns),
            modified: if is_of_size {
                SetTime::Omit
            } else {
                time(valid::MODIFIED, valid::MODIFIED_NOW, asked.modified, asked.modified_ns)
            },
            chown: names_nothing && !is_write,
        };
        if set.chown {
            self.check_owner_of_set_id(call)?;
        }
        if set != SetAttributes::default() {
            // The kernel has taken from a new mode what its sender may not set.
            let who = if set.mode.is_some() { who::trusted(&call.header) } else { who::asks(&call.header) };
            let set = CallByNumber::SetAttributes { inode: call.inode(), set };
            self.client.call_by_number(&who, &set).map_err(stale)?;
        }
        // The kernel takes this answer whatever it was told meanwhile, so it does not hold; and it lets nothing be written to
        // the file until it has it, so content stays as it is: the next question for attributes sees to both.
        let (record, _) = self.client.attributes(call.inode()).map_err(stale)?.value;
        self.known.tell(&record);
        call.answer.put(&AttributesOut { attributes: shown(&record), ..AttributesOut::default() });
        Ok(())
    }

    /// Credentials of a writer: a kernel that says so takes set-id bits by [`Self::take_set_id`].
    pub(in crate::door) fn writer(&self, call: &Call<'_>) -> Credentials {
        if self.kernel.tells_of_set_id { who::trusted(&call.header) } else { who::asks(&call.header) }
    }

    /// The sender of a request writes, and does not keep the set-id bits of what it writes to.
    pub(in crate::door) fn take_set_id(&self, call: &Call<'_>) -> Result<(), Refusal> {
        let inode = call.inode();
        let take = CallByNumber::TakeRights { inode };
        let taken = self.client.call_by_number(&who::takes_set_id(&call.header), &take).map_err(stale)?;
        if taken.value.is_some() {
            // The kernel would go by what it knows.
            call.device.doubt_attributes(inode);
        }
        Ok(())
    }

    /// Whether a change that names no attribute is of a `chown`: the request does not say. Where it cannot be seen, a file
    /// that no process has open is not written to.
    fn is_chown(&self, call: &Call<'_>) -> bool {
        let inode = call.inode();
        !self.files.writes_to(inode) || is_in_chown(call.header.pid).unwrap_or(false)
    }

    /// Set-id bits go with a change of owner. The kernel checks that only the owner makes them go where the change names a user or group.
    fn check_owner_of_set_id(&self, call: &Call<'_>) -> Result<(), Refusal> {
        let (record, _) = self.client.attributes(call.inode()).map_err(stale)?.value;
        let is_directory = record.kind() == FileKind::Directory;
        let has_set_id = !is_directory && record.mode & (libc::S_ISUID | libc::S_ISGID) != 0;
        let uid = call.header.uid;
        if has_set_id && uid != 0 && uid != record.uid { Err(Refusal(libc::EPERM)) } else { Ok(()) }
    }

    pub(in crate::door) fn read_link(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let target = self.client.read_link(&who::asks(&call.header), call.base(), b"").map_err(stale)?;
        call.answer.put_bytes(&target);
        Ok(())
    }

    pub(in crate::door) fn totals(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let tree = self.client.attributes(call.inode()).map_or(InodeNumber::NONE, |found| found.value.0.tree);
        let totals = self.client.statfs_in(tree)?;
        call.answer.put(&StatFsOut {
            blocks: totals.blocks,
            free: totals.blocks_free,
            available: totals.blocks_free,
            files: totals.inodes.saturating_add(totals.inodes_free),
            files_free: totals.inodes_free,
            block_size: BLOCK_BYTES,
            name_max: NAME_BYTES_MAX,
            fragment_size: BLOCK_BYTES,
            ..StatFsOut::default()
        });
        Ok(())
    }

    pub(in crate::door) fn get_extended(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let ExtendedSize { size, .. } = call.arguments.structure()?;
        let name = call.arguments.text()?;
        let target = Target::Path { base: call.base(), path: b"", follow: false };
        let value = self.client.get_extended(&who::asks(&call.header), target, name).map_err(stale)?;
        put_sized(call, size, &value)
    }

    pub(in crate::door) fn list_extended(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let ExtendedSize { size, .. } = call.arguments.structure()?;
        let target = Target::Path { base: call.base(), path: b"", follow: false };
        let list = self.client.list_extended(&who::asks(&call.header), target).map_err(stale)?;
        put_sized(call, size, &list)
    }

    pub(in crate::door) fn set_extended(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let SetExtendedIn { size, flags, set_flags, .. } = call.arguments.structure()?;
        let name = call.arguments.text()?;
        let value = call.arguments.bytes(size as usize)?;
        let has = |flag: libc::c_int| flags & flag as u32 != 0;
        let flags = ExtendedFlags { create: has(libc::XATTR_CREATE), replace: has(libc::XATTR_REPLACE) };
        let takes_set_gid = set_flags & LIST_TAKES_SET_GID != 0;
        let who = if takes_set_gid { who::asks(&call.header) } else { who::trusted(&call.header) };
        let target = Target::Path { base: call.base(), path: b"", follow: false };
        self.client.set_extended(&who, target, name, value, flags).map_err(stale)
    }

    pub(in crate::door) fn remove_extended(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let name = call.arguments.text()?;
        if name == CAPABILITY && is_in_chown(call.header.pid) == Some(true) {
            // It goes with a change of owner, which is refused behind this.
            self.check_owner_of_set_id(call)?;
        }
        let target = Target::Path { base: call.base(), path: b"", follow: false };
        self.client.remove_extended(&who::trusted(&call.header), target, name).map_err(stale)
    }
}

/// Answers a value, or its size if nothing more is asked for.
fn put_sized(call: &mut Call<'_>, size: u32, value: &[u8]) -> Result<(), Refusal> {
    match size as usize {
        0 => call.answer.put(&ExtendedSize { size: value.len() as u32, padding: 0 }),
        size if size < value.len() => return Err(Refusal(libc::ERANGE)),
        _ => call.answer.put_bytes(value),
    }
    Ok(())
}
