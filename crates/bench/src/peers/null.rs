//! A FUSE file system that does nothing, served as the mount of a store is: by the same threads, with the same terms for what
//! the kernel may keep. So a call by it costs the round trip through the kernel, and what a call by the mount costs beyond
//! that is the door's.
//!
//! It knows names, modes and sizes, so that programs find again what they made. Contents are zeros.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cuesta_fuse::abi::{
    Attributes, AttributesOut, CreateIn, DirectoryEntry, EntryOut, ExtendedSize, LinkIn, MakeDirectoryIn,
    OPEN_DIRECT, OPEN_KEEP_CACHE, Opcode, OpenIn, OpenOut, ReadIn, RenameFlaggedIn, RenameIn,
    SetAttributesIn, StatFsOut, StatxOut, WriteIn, WriteOut, valid,
};
use cuesta_fuse::{Answer, Device, Keeping, Malformed, Options, Outcome, Request, Server, Serves};

use crate::error::BenchError;

/// How long the kernel may keep what it was told: as long as a store's daemon says.
const TERM: Duration = Duration::from_secs(1);
const ROOT: u64 = 1;
const NAME_BYTES_MAX: u32 = 255;

/// Mounts one at `at`, says so by `ready`, and serves it until it is unmounted.
pub fn serve(at: &Path, ready: impl FnOnce()) -> Result<(), BenchError> {
    let failed = |why: &dyn std::fmt::Display| BenchError::Unusable(format!("the null file system: {why}"));
    let options = Options { source: "null".to_owned(), allow_other: true, ..Options::default() };
    let device = cuesta_fuse::mount(at, &options).map_err(|error| failed(&error))?;
    let server =
        Server::start_with(device, |_, _| Ok(Box::new(Null::new()))).map_err(|error| failed(&error))?;
    ready();
    server.wait();
    Ok(())
}

#[derive(Debug, Default)]
struct Node {
    mode: u32,
    links: u32,
    size: u64,
    names: BTreeMap<Vec<u8>, u64>,
}

#[derive(Debug)]
struct Tree {
    nodes: HashMap<u64, Node>,
    last: u64,
}

#[derive(Debug)]
struct Null {
    tree: Mutex<Tree>,
    keeping: Keeping,
}

/// An error number.
struct Refusal(i32);

impl From<Malformed> for Refusal {
    fn from(_: Malformed) -> Self {
        Refusal(libc::EIO)
    }
}

impl Tree {
    fn node(&mut self, number: u64) -> Result<&mut Node, Refusal> {
        self.nodes.get_mut(&number).ok_or(Refusal(libc::ESTALE))
    }

    fn find(&mut self, directory: u64, name: &[u8]) -> Result<u64, Refusal> {
        self.node(directory)?.names.get(name).copied().ok_or(Refusal(libc::ENOENT))
    }

    fn make(&mut self, directory: u64, name: &[u8], mode: u32) -> Result<u64, Refusal> {
        if self.node(directory)?.names.contains_key(name) {
            return Err(Refusal(libc::EEXIST));
        }
        self.last += 1;
        let number = self.last;
        self.nodes.insert(number, Node { mode, links: 1, ..Node::default() });
        self.node(directory)?.names.insert(name.to_vec(), number);
        Ok(number)
    }

    fn link(&mut self, number: u64, directory: u64, name: &[u8]) -> Result<(), Refusal> {
        self.node(number)?.links += 1;
        self.node(directory)?.names.insert(name.to_vec(), number);
        Ok(())
    }

    fn remove(&mut self, directory: u64, name: &[u8]) -> Result<(), Refusal> {
        let number = self.find(directory, name)?;
        if !self.node(number)?.names.is_empty() {
            return Err(Refusal(libc::ENOTEMPTY));
        }
        self.node(directory)?.names.remove(name);
        self.unlink(number)
    }

    fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8])) -> Result<(), Refusal> {
        let number = self.find(from.0, from.1)?;
        self.node(from.0)?.names.remove(from.1);
        if let Some(replaced) = self.node(to.0)?.names.insert(to.1.to_vec(), number) {
            self.unlink(replaced)?;
        }
        Ok(())
    }

    fn unlink(&mut self, number: u64) -> Result<(), Refusal> {
        let node = self.node(number)?;
        node.links -= 1;
        if node.links == 0 {
            self.nodes.remove(&number);
        }
        Ok(())
    }

    fn attributes(&mut self, number: u64) -> Result<Attributes, Refusal> {
        let &mut Node { mode, size, links, .. } = self.node(number)?;
        let blocks = size.div_ceil(512);
        Ok(Attributes { inode: number, size, blocks, mode, links, block_size: 4096, ..Attributes::default() })
    }
}

impl Serves for Null {
    fn serve(&self, request: Request<'_>, answer: &mut Answer, _: &Arc<Device>) -> Outcome {
        if let Some(Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt) = request.opcode {
            return Outcome::Silent;
        }
        match self.answer(request, answer) {
            Ok(()) => Outcome::Answered,
            Err(Refusal(errno)) => Outcome::Refused(errno),
        }
    }
}

impl Null {
    fn new() -> Self {
        let root = Node { mode: libc::S_IFDIR | 0o777, links: 1, ..Node::default() };
        let tree = Mutex::new(Tree { nodes: HashMap::from([(ROOT, root)]), last: ROOT });
        Null { tree, keeping: Keeping::for_term(TERM) }
    }

    fn answer(&self, request: Request<'_>, answer: &mut Answer) -> Result<(), Refusal> {
        let Request { header, opcode, mut arguments } = request;
        let node = header.node;
        let mut tree = self.tree.lock().expect("no panic under this lock");
        let tree = &mut *tree;
        match opcode.ok_or(Refusal(libc::ENOSYS))? {
            Opcode::Lookup => match tree.find(node, arguments.text()?) {
                Err(Refusal(libc::ENOENT)) => answer.put(&self.entry(Attributes::default())),
                found => answer.put(&self.entry(tree.attributes(found?)?)),
            },
            Opcode::GetAttributes => answer.put(&self.attributes(tree.attributes(node)?)),
            Opcode::Statx => answer.put(&self.statx(tree.attributes(node)?)),
            Opcode::SetAttributes => {
                let asked: SetAttributesIn = arguments.structure()?;
                let found = tree.node(node)?;
                if asked.valid & valid::MODE != 0 {
                    found.mode = found.mode & libc::S_IFMT | asked.mode & 0o7777;
                }
                if asked.valid & valid::SIZE != 0 {
                    found.size = asked.size;
                }
                // As the door's, an answer to a change holds for no time.
                let attributes = tree.attributes(node)?;
                answer.put(&AttributesOut { attributes, ..AttributesOut::default() });
            }
            Opcode::MakeDirectory => {
                let MakeDirectoryIn { mode, umask } = arguments.structure()?;
                let made = tree.make(node, arguments.text()?, libc::S_IFDIR | mode & 0o7777 & !umask)?;
                answer.put(&self.entry(tree.attributes(made)?));
            }
            Opcode::Create => {
                let CreateIn { flags, mode, umask, .. } = arguments.structure()?;
                let made = tree.make(node, arguments.text()?, libc::S_IFREG | mode & 0o7777 & !umask)?;
                answer.put(&self.entry(tree.attributes(made)?));
                answer.put(&opened(flags));
            }
            Opcode::Link => {
                let LinkIn { node: linked } = arguments.structure()?;
                tree.link(linked, node, arguments.text()?)?;
                answer.put(&self.entry(tree.attributes(linked)?));
            }
            Opcode::Unlink | Opcode::RemoveDirectory => tree.remove(node, arguments.text()?)?,
            Opcode::Rename => {
                let RenameIn { new_directory } = arguments.structure()?;
                tree.rename((node, arguments.text()?), (new_directory, arguments.text()?))?;
            }
            Opcode::RenameFlagged => {
                let RenameFlaggedIn { new_directory, .. } = arguments.structure()?;
                tree.rename((node, arguments.text()?), (new_directory, arguments.text()?))?;
            }
            Opcode::Open => {
                let OpenIn { flags, .. } = arguments.structure()?;
                answer.put(&opened(flags));
            }
            Opcode::OpenDirectory => answer.put(&OpenOut::default()),
            Opcode::ReadDirectory => list(tree.node(node)?, &arguments.structure()?, answer),
            Opcode::Read => {
                let ReadIn { offset, size, .. } = arguments.structure()?;
                let left = tree.node(node)?.size.saturating_sub(offset).min(size.into());
                answer.fill(left as usize, |room| Ok::<_, Refusal>(room.len()))?;
            }
            Opcode::Write => {
                let WriteIn { offset, size, .. } = arguments.structure()?;
                let found = tree.node(node)?;
                found.size = found.size.max(offset + u64::from(size));
                answer.put(&WriteOut { size, padding: 0 });
            }
            Opcode::StatFs => {
                let facts = StatFsOut { block_size: 4096, name_max: NAME_BYTES_MAX, ..StatFsOut::default() };
                answer.put(&facts);
            }
            Opcode::GetExtended => return Err(Refusal(libc::ENODATA)),
            Opcode::ListExtended => answer.put(&ExtendedSize::default()),
            Opcode::Flush
            | Opcode::Release
            | Opcode::ReleaseDirectory
            | Opcode::FSync
            | Opcode::FSyncDirectory
            | Opcode::SyncFs
            | Opcode::SetExtended
            | Opcode::RemoveExtended
            | Opcode::Allocate
            | Opcode::Destroy => {}
            _ => return Err(Refusal(libc::EOPNOTSUPP)),
        }
        Ok(())
    }

    /// What stands for a name; a node without a number: there is none.
    fn entry(&self, attributes: Attributes) -> EntryOut {
        let (entry_valid, entry_valid_ns) = self.keeping.name();
        EntryOut { node: attributes.inode, entry_valid, entry_valid_ns, attributes, ..EntryOut::default() }
    }

    fn attributes(&self, attributes: Attributes) -> AttributesOut {
        let (valid, valid_ns) = self.keeping.attributes();
        AttributesOut { valid, valid_ns, padding: 0, attributes }
    }

    fn statx(&self, attributes: Attributes) -> StatxOut {
        let (valid, valid_ns) = self.keeping.attributes();
        let Attributes { inode, size, blocks, mode, links, block_size, .. } = attributes;
        StatxOut {
            valid,
            valid_ns,
            mask: libc::STATX_BASIC_STATS,
            block_size,
            links,
            mode: mode as u16,
            inode,
            size,
            blocks,
            ..StatxOut::default()
        }
    }
}

/// Appends, and files past the cache, are opened as the door does it.
fn opened(flags: u32) -> OpenOut {
    let is_direct = flags as i32 & (libc::O_APPEND | libc::O_DIRECT) != 0;
    let direct = if is_direct { OPEN_DIRECT } else { 0 };
    OpenOut { open_flags: OPEN_KEEP_CACHE | direct, ..OpenOut::default() }
}

fn list(directory: &Node, asked: &ReadIn, answer: &mut Answer) {
    for (place, (name, &inode)) in directory.names.iter().enumerate().skip(asked.offset as usize) {
        let bytes = size_of::<DirectoryEntry>() + name.len();
        if answer.bytes().len() + bytes.next_multiple_of(8) > asked.size as usize {
            return;
        }
        let offset = place as u64 + 1;
        answer.put(&DirectoryEntry { inode, offset, name_length: name.len() as u32, kind: 0 });
        answer.put_bytes(name);
        answer.align();
    }
}
