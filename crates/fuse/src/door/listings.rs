//! Directories that are read, with the attributes of what they name if the kernel wants them.

use super::attributes::stale;
use super::who;
use super::{Call, Door, Refusal};
use crate::abi::{DirectoryEntry, EntryOut, OpenOut, ReadIn};
use cuesta_format::InodeNumber;
use cuesta_libfs::{Base, DirectoryItem};

impl Door {
    pub(super) fn open_directory(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let file = self.client.open(&who::asks(&call.header), call.base(), b"", flags, 0).map_err(stale)?;
        let handle = self.files.add(file);
        call.answer.put(&OpenOut { handle, ..OpenOut::default() });
        Ok(())
    }

    pub(super) fn read_directory(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        self.list(call, |_, _| {}, 0)
    }

    pub(super) fn read_directory_with_attributes(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let who = who::asks(&call.header);
        let put_entry = |call: &mut Call<'_>, item: &DirectoryItem<'_>| {
            let is_other = !matches!(item.name, b"." | b"..");
            let base = Base::Inode(item.inode);
            let found = is_other.then(|| self.client.stat(&who, base, b"", false).ok()).flatten();
            // Without a number the kernel looks the name up when it is asked for.
            let entry = found.map_or_else(EntryOut::default, |stat| self.entry(&stat.record));
            call.answer.put(&entry);
        };
        self.list(call, put_entry, size_of::<EntryOut>())
    }

    /// Answers with names from an offset on, each behind what `put_before` puts there, `before_bytes` long.
    fn list(
        &self,
        call: &mut Call<'_>,
        mut put_before: impl FnMut(&mut Call<'_>, &DirectoryItem<'_>),
        before_bytes: usize,
    ) -> Result<(), Refusal> {
        let ReadIn { handle, offset, size, .. } = call.arguments.structure()?;
        let file = self.files.get(handle)?;
        file.set_offset(offset);
        let bytes_max = size as usize;
        self.client.read_directory(&file, &mut |item| {
            let bytes = before_bytes + size_of::<DirectoryEntry>() + item.name.len();
            if call.answer.bytes().len() + bytes.next_multiple_of(8) > bytes_max {
                return false;
            }
            put_before(call, &item);
            call.answer.put(&entry(&item));
            call.answer.put_bytes(item.name);
            call.answer.align();
            true
        })?;
        Ok(())
    }
}

fn entry(item: &DirectoryItem<'_>) -> DirectoryEntry {
    const KIND_SHIFT: u32 = 12;
    let InodeNumber(inode) = item.inode;
    DirectoryEntry {
        inode,
        offset: item.next_cookie,
        name_length: item.name.len() as u32,
        kind: item.kind.mode_bits() >> KIND_SHIFT,
    }
}
