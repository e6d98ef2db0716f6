//! The state that a metadata store and its transactions share: the tree, the journal's changes over it, and how
//! both are committed.
//!
//! A lock guards the last commit. Only the transaction that writes changes it.

use super::error::MetadataError;
use super::journal;
use crate::metadata::codec::Table;
use crate::metadata::files::Files;
use crate::metadata::journal::{Change, JournalEnd, JournalFlaw, JournalGeneration, JournalLoss, Redo};
use crate::metadata::tree::{Opened, Overlay, Snapshot, TreeAt, apply_sorted, guarded};
use crate::metadata::writing::{NewNames, Spare, Watch};
use cuesta_media::emulate::Emulated;
use parking_lot::{ArcMutexGuard, Mutex, RawMutex, RwLock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The generation of the journal whose changes come behind the tree.
pub(crate) const JOURNAL_COUNTER: &str = "journal";

/// Held by the one transaction that writes.
pub(crate) type Writing = ArcMutexGuard<RawMutex, ()>;

/// What transactions use, too.
pub(crate) struct Shared {
    files: Files,
    cache_bytes: u64,
    pub(super) current: RwLock<Current>,
    /// A commit of the tree ended with an error, and may have been done all the same: where a next transaction would go
    /// is not known.
    pub(super) in_doubt: AtomicBool,
    /// It is the next one's.
    pub(super) is_left: AtomicBool,
    /// The store was opened anew, and the journal was not as it was any more.
    pub(super) flaw: OnceLock<JournalFlaw>,
    /// Memory that the last transaction left to the next.
    spare: Mutex<Spare>,
    /// The medium that is played where it lies.
    pub(super) emulated: OnceLock<Arc<Emulated>>,
    /// The cache that is told what transactions change.
    pub(crate) watch: OnceLock<Arc<dyn Watch>>,
}

/// The last commit, and where it lies.
pub(super) struct Current {
    pub(super) opened: Arc<Opened>,
    /// The tree as it was last written, once it was read.
    pub(super) tree: Option<Arc<TreeAt>>,
    /// The journal's changes.
    overlay: Arc<Overlay>,
    pub(super) journal: JournalEnd,
}

impl Shared {
    /// Opens the tree, without the journal's changes.
    pub(super) fn open(files: Files, cache_bytes: u64) -> Result<Shared, MetadataError> {
        let opened = Arc::new(Opened::new(&files, cache_bytes)?);
        let current = Current { opened, tree: None, overlay: Arc::default(), journal: JournalEnd::default() };
        let (current, watch) = (RwLock::new(current), OnceLock::new());
        let emulated = OnceLock::new();
        let (in_doubt, is_left) = (AtomicBool::new(false), AtomicBool::new(false));
        let (flaw, spare) = (OnceLock::new(), Mutex::default());
        Ok(Shared { files, cache_bytes, current, in_doubt, is_left, flaw, spare, emulated, watch })
    }

    /// A snapshot of the last commit. After a transaction that found the medium full, redb does not go on: the
    /// store is opened anew for it.
    pub(super) fn read(&self) -> Result<Snapshot, MetadataError> {
        let current = self.current.read();
        self.check_kept()?;
        if let Some(tree) = &current.tree
            && !current.opened.file.ran_full()
        {
            return Ok(Snapshot::new(Arc::clone(tree), Arc::clone(&current.overlay)));
        }
        drop(current);
        guarded(|| {
            let mut current = self.current.write();
            self.check_kept()?;
            if current.opened.file.ran_full() {
                current.opened.file.give_up();
                current.tree = None;
                current.opened = Arc::new(Opened::new(&self.files, self.cache_bytes)?);
                if let Some(emulated) = self.emulated.get() {
                    current.opened.file.emulate(emulated);
                }
                // The journal's changes are known and read on. Nothing is written any more, because
                // that would lose them.
                if let Some(loss) = current.read_journal(Flawed::Leave)? {
                    let _ = self.flaw.set(loss.flaw);
                }
            }
            let tree = match &current.tree {
                Some(tree) => Arc::clone(tree),
                None => current.opened.read_tree()?,
            };
            current.tree = Some(Arc::clone(&tree));
            Ok(Snapshot::new(tree, Arc::clone(&current.overlay)))
        })
    }

    /// Whether the commit that began a journal was done, though it ended with an error. A caller that is told
    /// that there was no room commits again. The store is opened anew for it.
    fn is_in_tree(&self, begun: JournalGeneration) -> Result<bool, MetadataError> {
        let found = self.read().and_then(|snapshot| snapshot.counter(JOURNAL_COUNTER));
        let found = found.inspect_err(|_| self.in_doubt.store(true, Ordering::Relaxed))?;
        Ok(found == Some(begun.0))
    }

    pub(super) fn check_kept(&self) -> Result<(), MetadataError> {
        if self.is_left.load(Ordering::Acquire) { Err(MetadataError::Left) } else { Ok(()) }
    }

    /// Memory for a transaction.
    pub(crate) fn spare(&self) -> Spare {
        std::mem::take(&mut *self.spare.lock())
    }

    /// Takes it back.
    pub(crate) fn keep(&self, spare: Spare) {
        *self.spare.lock() = spare.emptied();
    }

    fn place(&self) -> (Arc<Opened>, JournalEnd) {
        let current = self.current.read();
        (Arc::clone(&current.opened), current.journal)
    }

    /// Writes the journal's changes to the tree, for the transaction that writes.
    pub(crate) fn write_out_all(&self, _writing: &Writing, base: Snapshot) -> Result<(), MetadataError> {
        let (opened, journal) = self.place();
        self.write_out(&opened, journal, base, &Redo::default(), &NewNames::NONE)
    }

    /// Commits changes of the transaction that writes, unless one of the names that are to be new exists.
    pub(crate) fn commit(
        &self,
        _writing: &Writing,
        base: Snapshot,
        redo: &Redo,
        new_names: &NewNames<'_>,
    ) -> Result<(), MetadataError> {
        let (opened, journal) = self.place();
        if redo.len() == 0 {
            return Ok(());
        }
        let small = journal::takes(journal, base.overlay(), redo, opened.file.slack_bytes());
        if small || journal.end > 0 {
            // By what is written to the tree they are found there.
            base.find_none_of(new_names.keys(), small)?;
        }
        if small {
            let mut overlay = Overlay::clone(base.overlay());
            overlay.apply(redo.bytes())?;
            let journal = journal::append(&opened.file, journal, redo)?;
            let mut current = self.current.write();
            (current.overlay, current.journal) = (Arc::new(overlay), journal);
            return Ok(());
        }
        self.write_out(&opened, journal, base, redo, new_names)
    }

    /// Writes the journal's changes and `redo` over them to the tree.
    fn write_out(
        &self,
        opened: &Arc<Opened>,
        journal: JournalEnd,
        base: Snapshot,
        redo: &Redo,
        new_names: &NewNames<'_>,
    ) -> Result<(), MetadataError> {
        let overlay = Arc::clone(base.overlay());
        drop(base);
        if overlay.keys() == 0 {
            // A reader of the tree less: the pages that its last commit freed can be used by this one. With nothing in front
            // of it, the tree before this commit and the one behind it are both what a reader may see meanwhile.
            self.current.write().tree = None;
        }
        self.in_doubt.store(true, Ordering::Relaxed);
        let written = write_tree(opened, &overlay, redo, journal.generation.next(), new_names);
        // Whatever redb calls it where it came across a full medium; then the store is opened anew and says whether it was done.
        let ran_full = opened.file.ran_full();
        let is_known = ran_full || matches!(written, Ok(_) | Err(MetadataError::NameTaken));
        self.in_doubt.store(!is_known, Ordering::Relaxed);
        match written {
            Err(_) if ran_full && self.is_in_tree(journal.generation.next())? => Ok(()),
            Err(_) if ran_full => Err(MetadataError::NoSpace),
            Err(error) => Err(error),
            Ok(journal) => {
                let mut current = self.current.write();
                // Opened anew, it found the tree as it is now.
                if Arc::ptr_eq(&current.opened, opened) {
                    (current.tree, current.overlay, current.journal) = (None, Arc::default(), journal);
                }
                Ok(())
            }
        }
    }
}

/// Writes the journal's changes and `redo` over them to the tree, behind which the journal of generation `next` comes then.
fn write_tree(
    opened: &Opened,
    overlay: &Overlay,
    redo: &Redo,
    next: JournalGeneration,
    new_names: &NewNames<'_>,
) -> Result<JournalEnd, MetadataError> {
    let tree = opened.begin_tree()?;
    opened.file.announce_syncing_thread();
    let mut changes = redo.changes().peekable();
    for table in Table::ALL {
        let of_table = |change: &Result<Change<'_>, MetadataError>| {
            change.as_ref().map_or(true, |change| change.table == table)
        };
        let mut newer = std::iter::from_fn(|| changes.next_if(of_table)).peekable();
        let mut older = overlay.all(table).peekable();
        if newer.peek().is_none() && older.peek().is_none() {
            continue;
        }
        let merged = std::iter::from_fn(|| {
            let change = match newer.peek() {
                Some(Ok(change)) => *change,
                Some(Err(_)) => return newer.next().map(|error| error.map(|it| (it.key, it.value))),
                None => return older.next().map(Ok),
            };
            if let Some(old) = older.next_if(|(key, _)| *key < change.key) {
                return Some(Ok(old));
            }
            older.next_if(|(key, _)| *key == change.key);
            newer.next();
            Some(Ok((change.key, change.value)))
        });
        apply_sorted(&mut tree.open_table(table.definition())?, merged, |key| {
            // One that the journal removes has been looked for there.
            let is_taken =
                table == Table::Dirents && new_names.contain(key) && overlay.get(table, key).is_none();
            if is_taken { Err(MetadataError::NameTaken) } else { Ok(()) }
        })?;
    }
    let number = next.0.to_le_bytes();
    tree.open_table(Table::Counters.definition())?.insert(JOURNAL_COUNTER.as_bytes(), &number[..])?;
    tree.commit()?;
    let begun = journal::begin(&opened.file, next)?;
    opened.file.settle_second();
    Ok(begun)
}

/// What to do with a journal that has a flaw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flawed {
    /// Take what comes before the flaw.
    Take,
    /// Leave the changes that were known before.
    Leave,
}

impl Current {
    /// Bytes that the tree's file may grow by when it takes the journal's changes.
    pub(super) fn set_aside_bytes(&self) -> u64 {
        journal::growth_bytes(self.overlay.keys())
    }

    /// Reads the journal's changes, if it comes behind the tree. Where it has a flaw, the records before the
    /// flaw are taken or left.
    pub(super) fn read_journal(&mut self, flawed: Flawed) -> Result<Option<JournalLoss>, MetadataError> {
        let tree = self.opened.read_tree()?;
        let generation = Snapshot::new(tree, Arc::default()).counter(JOURNAL_COUNTER)?;
        let missing = || MetadataError::Damaged("it does not say which journal it has".into());
        let generation = JournalGeneration(generation.ok_or_else(missing)?);
        let replayed = journal::replay(&self.opened.file, generation)?;
        if replayed.flaw.is_none() || flawed == Flawed::Take {
            (self.overlay, self.journal) = (Arc::new(replayed.overlay), replayed.place);
        }
        Ok(replayed.flaw.map(|flaw| JournalLoss { flaw, commits_kept: replayed.commits }))
    }
}
