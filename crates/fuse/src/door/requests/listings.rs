//! Directories that are read. Attributes of what they name are not sent along: a listing is as old as its first part, and the
//! kernel takes names that come with attributes for looked up now.

use crate::door::call::Call;
use crate::door::dispatch::Door;
use crate::door::refusal::Refusal;
use crate::door::refusal::stale;
use crate::door::who;
use crate::kernel::abi::{DirectoryEntry, OpenOut, ReadIn};
use cuesta_format::InodeNumber;
use cuesta_libfs::DirectoryItem;

impl Door {
    pub(in crate::door) fn open_directory(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let file = self.client.open(&who::asks(&call.header), call.base(), b"", flags, 0).map_err(stale)?;
        let handle = self.files.add(file);
        call.answer.put(&OpenOut { handle, ..OpenOut::default() });
        Ok(())
    }

    /// Answers with names from an offset on.
    pub(in crate::door) fn read_directory(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let ReadIn { handle, offset, size, .. } = call.arguments.structure()?;
        let file = self.files.get(handle)?;
        file.set_offset(offset);
        let bytes_max = size as usize;
        self.client.read_directory(&file, &mut |item| {
            let bytes = size_of::<DirectoryEntry>() + item.name.len();
            if call.answer.bytes().len() + bytes.next_multiple_of(8) > bytes_max {
                return false;
            }
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
