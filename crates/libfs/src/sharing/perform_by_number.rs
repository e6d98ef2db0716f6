//! Performing calls that name inodes by their numbers: in the mount's session, or in the daemon for it.

use crate::client::client::Client;
use crate::errno::Error;
use crate::paths::credentials::Credentials;
use crate::paths::path::{Base, LinkSource, Target};
use crate::sharing::by_number::CallByNumber;
use cuesta_format::{FileKind, InodeRecord};

impl Client {
    /// Performs a call with these credentials. Answers the attributes of what the call is about, or made.
    pub fn perform_by_number(
        &self,
        credentials: &Credentials,
        call: &CallByNumber<'_>,
    ) -> Result<Option<InodeRecord>, Error> {
        let who = credentials;
        Ok(match *call {
            CallByNumber::Stat { inode } => Some(self.stat(who, Base::Inode(inode), b"", false)?.record),
            CallByNumber::LookUp { directory, name } => {
                Some(self.stat(who, Base::Inode(directory), name, false)?.record)
            }
            CallByNumber::MakeDirectory { directory, name, mode } => {
                Some(self.make_directory(who, Base::Inode(directory), name, mode)?)
            }
            CallByNumber::MakeNode { directory, name, mode, device } => {
                Some(self.make_node(who, Base::Inode(directory), name, mode, device)?)
            }
            CallByNumber::MakeLink { directory, name, target } => {
                Some(self.symlink(who, target, Base::Inode(directory), name)?)
            }
            CallByNumber::Link { inode, directory, name } => {
                let source = LinkSource::Path { base: Base::Inode(inode), path: b"", follow: false };
                Some(self.link(who, source, Base::Inode(directory), name)?)
            }
            CallByNumber::Unlink { directory, name } => {
                self.unlink(who, Base::Inode(directory), name)?;
                None
            }
            CallByNumber::RemoveDirectory { directory, name } => {
                self.remove_directory(who, Base::Inode(directory), name)?;
                None
            }
            CallByNumber::Rename { directory, name, new_directory, new_name, flags } => {
                let (old, new) = ((Base::Inode(directory), name), (Base::Inode(new_directory), new_name));
                self.rename(who, old, new, flags)?;
                // The call has taken effect, whatever comes of this.
                if directory == new_directory { None } else { self.directory_at(who, new) }
            }
            CallByNumber::SetAttributes { inode, set } => {
                let target = Target::Path { base: Base::Inode(inode), path: b"", follow: false };
                self.set_attributes(who, target, set)?;
                None
            }
            CallByNumber::Truncate { inode, size } => {
                self.truncate(who, Base::Inode(inode), b"", size)?;
                None
            }
            CallByNumber::TakeRights { inode } => {
                let is_taken = self.take_rights_of(who, inode)?;
                let stat = || self.stat(who, Base::Inode(inode), b"", false);
                is_taken.then(stat).transpose()?.map(|stat| stat.record)
            }
        })
    }

    /// The attributes of the directory that a name leads to, if it does. Of other inodes no lease is taken.
    fn directory_at(&self, who: &Credentials, (base, name): (Base<'_>, &[u8])) -> Option<InodeRecord> {
        let (_, kind) = self.operate(|_attempt| self.find(who, base, name, false)).ok()?;
        let stat = || self.stat(who, base, name, false).ok();
        (kind == FileKind::Directory).then(stat).flatten().map(|stat| stat.record)
    }
}
