//! `link`: one more name for an inode.

use crate::cache::directory_content::{NameState, NameTarget};
use crate::calls::names::make::{check_can_make, new_name};
use crate::calls::names::remove::name_state;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::confined::Refer;
use crate::paths::credentials::Credentials;
use crate::paths::path::{Base, Follow, LinkSource};
use crate::sync::{Arc, Ordering};
use cuesta_format::{FileKind, InodeNumber, InodeRecord, LINKS_MAX, Operation};

impl Client {
    /// `link`. A file that was opened without a name gets its first one. Answers the file's record at that
    /// moment.
    pub fn link(
        &self,
        credentials: &Credentials,
        source: LinkSource<'_>,
        base: Base<'_>,
        path: &[u8],
    ) -> Result<InodeRecord, Error> {
        self.operate(|attempt| {
            let (from, (inode, kind)) = match source {
                LinkSource::File(file) => (None, (Arc::clone(file.inode_ref()), file.kind())),
                LinkSource::Path { base, path, follow } => {
                    let follow = if follow { Follow::Always } else { Follow::BeforeSlash };
                    let found = self.walk(credentials, base, path, follow)?;
                    (Some(Arc::clone(&found.parent)), found.existing()?)
                }
            };
            let found = self.walk_second(credentials, base, path)?;
            let name = new_name(&found, false)?;
            let refer = Refer {
                from: from.as_ref(),
                inode: (inode.number, kind),
                to: &found.parent,
                replaced: None,
                moves: false,
                exchanges: false,
            };
            self.check_may_refer(credentials, &refer)?;
            let operation = Operation::Link { parent: found.parent.number, inode: inode.number, name };
            attempt.prepare_effect(operation.body_bytes(), 0)?;
            let mut locked = self.lock_all([Some(&found.parent), Some(&inode), None, None])?;
            let retired = self.session.retired();
            let parent = locked.of(&found.parent)?;
            if !matches!(name_state(parent, name, retired), NameState::Absent | NameState::Unknown) {
                return Err(Halt::Again);
            }
            check_can_make(credentials, parent)?;
            if kind == FileKind::Directory {
                return Err(Error::NotPermitted.into());
            }
            let tree = parent.record.tree;
            let state = locked.of(&inode)?;
            if state.is_unlinked() && (state.released || state.record.parent == InodeNumber::NONE) {
                return Err(Error::NotFound.into());
            }
            // A directory's quota counts everything below the directory.
            if state.record.tree != tree {
                return Err(Error::CrossDevice.into());
            }
            if state.record.links >= LINKS_MAX {
                return Err(Error::LinkLimit.into());
            }
            let appended = attempt.append(&operation)?;
            state.record.links += 1;
            state.record.parent = InodeNumber::NONE;
            inode.orphaned.store(false, Ordering::SeqCst);
            state.record.changed = attempt.now;
            state.logged = appended.end;
            let record = state.record;
            let parent = locked.of(&found.parent)?;
            parent.record.size += 1;
            parent.touch_content(attempt.now);
            parent.logged = appended.end;
            if let Some(content) = parent.directory_mut() {
                content.put(name, NameTarget { inode: inode.number, kind });
            }
            Ok(record)
        })
    }
}
