//! Open files that go from one session to another, or outlast the session and the daemon, and the inodes that are left when
//! no process has them open any more.

use super::{World, attributes};
use crate::operations::operation::{Kind, Slot};
use crate::operations::tree::{Content, Tree, open_path};
use cuesta_format::InodeNumber;
use cuesta_format::geometry::REFERENCES_FOLDER;
use cuesta_libfs::{Error, Target};
use cuesta_media::lock_files::{self, Access};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// An open file as a process remembers it that lives on without its session.
#[derive(Clone, Copy, Debug, Hash)]
pub struct LastingFile {
    /// Where.
    pub slot: Slot,
    inode: InodeNumber,
    flags: i32,
    offset: u64,
}

/// Descriptors of open files, by which they last.
#[derive(Debug)]
pub struct LastingFiles(Vec<(LastingFile, OwnedFd)>);

impl LastingFiles {
    /// Those of `files`, in the store at `directory`, whether a daemon runs there or not.
    pub fn hold(directory: &Path, files: &[LastingFile]) -> Result<LastingFiles, String> {
        let folder = directory.join(REFERENCES_FOLDER);
        let folder = File::open(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        LastingFiles::below(folder, files)
    }

    fn below(folder: impl AsFd, files: &[LastingFile]) -> Result<LastingFiles, String> {
        let hold = |file: &LastingFile| Ok((*file, lock_files::take(&folder, file.inode, Access::Read)?));
        let held = files.iter().map(hold).collect::<Result<_, Errno>>();
        held.map(LastingFiles).map_err(|errno| format!("reference: {errno}"))
    }
}

impl World {
    /// Its open files, as it would remember them.
    pub fn lasting_files(&self) -> Vec<LastingFile> {
        let remember = |(slot, file): (&Slot, &std::sync::Arc<cuesta_libfs::OpenFile>)| LastingFile {
            slot: *slot,
            inode: file.inode(),
            flags: file.flags(),
            offset: file.offset(),
        };
        self.slots.iter().map(remember).collect()
    }

    /// Opens again what processes have descriptors of; what does not exist stays away.
    pub fn reopen(&mut self, files: &LastingFiles) -> Result<(), String> {
        for (LastingFile { slot, inode, flags, offset }, _) in &files.0 {
            match self.client.reopen(&self.who, *inode, *flags, *offset) {
                Ok(file) => drop(self.slots.insert(*slot, file)),
                Err(Error::NotFound) => {}
                Err(error) => return Err(format!("reopen: {error}")),
            }
        }
        Ok(())
    }

    /// Opens what `other` has in `slots`, and closes it there: an open file cannot be handed to another client.
    pub fn take_slots(&mut self, other: &mut World, slots: &Range<Slot>) -> Result<(), String> {
        let taken: Vec<Slot> = other.slots.range(slots.clone()).map(|(slot, _)| *slot).collect();
        for slot in taken {
            let Some(file) = other.slots.remove(&slot) else { continue };
            let again = self.client.reopen(&self.who, file.inode(), file.flags(), file.offset());
            self.slots.insert(slot, again.map_err(|error| format!("reopen: {error}"))?);
            other.client.close(file).map_err(|error| format!("close: {error}"))?;
        }
        Ok(())
    }

    /// The process executes another program: its open files last by their descriptors alone until the next session,
    /// which is the program's, opens them again.
    pub fn execute(self, program: &mut World) -> Result<(), String> {
        let files = LastingFiles::below(&*self.client.references(), &self.lasting_files())?;
        self.detach();
        let before = program.slots.len();
        program.reopen(&files)?;
        match program.slots.len() - before == files.0.len() {
            true => Ok(()),
            false => Err("an open file is gone".to_owned()),
        }
    }

    /// Everything the store shows, and what the files hold that this session has open, with names or without.
    pub fn tree_and_open_files(&self) -> Result<Tree, String> {
        let mut builder = self.collect()?;
        for (slot, file) in &self.slots {
            let add = || {
                let record = self.client.stat_open(file)?.record;
                let attributes = attributes(&record);
                let content = match attributes.kind {
                    Kind::File => Content::File(self.read_whole(file, attributes.size)?),
                    _ => Content::Directory,
                };
                Ok((record.inode, attributes, content, self.extended(Target::File(file))?))
            };
            let (inode, attributes, content, extended) =
                add().map_err(|error: Error| format!("open file {slot}: {error}"))?;
            builder.add(open_path(*slot), inode.0, attributes, content, extended);
        }
        Ok(builder.finish())
    }

    /// Closes everything it has open.
    pub fn close_all(&mut self) -> Result<(), String> {
        let slots = std::mem::take(&mut self.slots);
        let mut closed = slots.into_values().map(|file| self.client.close(file));
        closed.try_for_each(|closed| closed.map_err(|error| format!("close: {error}")))
    }

    /// Whether every inode in the shared area has a name, as when no process has anything open.
    pub fn nothing_nameless(&self) -> Result<(), String> {
        let snapshot = self.daemon.current().snapshot().map_err(|error| error.to_string())?;
        let nameless = snapshot.orphans().map_err(|error| error.to_string())?;
        if nameless.is_empty() { Ok(()) } else { Err(format!("without a name: {nameless:?}")) }
    }
}
