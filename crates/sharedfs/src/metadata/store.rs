//! Making, opening and checking a metadata store.

use super::apply::apply_sorted;
use super::backend::BackendFile;
use super::checked_pages::PAGE_BYTES;
use super::copies::{Exist, Files};
use super::guard::{Tree, guarded};
use super::journal::{self, JournalFlaw, JournalGeneration, Place};
use super::keys::Table;
use super::layered::{Overlay, TreeAt};
use super::name_changes::NewNames;
use super::opened::Opened;
use super::redo::{Change, Redo};
use super::sound_part::{JournalLoss, SoundPart};
use super::spare::Spare;
use super::{Counters, MetadataError, Snapshot, Transaction, Watch};
use cuesta_format::stamp::Stamp;
use cuesta_media::Medium;
use cuesta_media::emulate::Emulated;
use parking_lot::{ArcMutexGuard, Mutex, RawMutex, RwLock};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The layout of tables, keys and values this build reads and writes.
const FORMAT_VERSION: u64 = 7;
const FORMAT_COUNTER: &str = "format";
/// The generation of the journal whose changes come behind the tree.
pub(super) const JOURNAL_COUNTER: &str = "journal";

/// Pages of the tree kept in memory of our own, unless somebody says how many. More than this bought nothing in the
/// measurement.
pub const CACHE_BYTES: u64 = 64 << 20;

/// The metadata store. One writer, any number of readers beside it.
pub struct MetadataStore {
    shared: Arc<Shared>,
    writer: Arc<Mutex<()>>,
    read_only: OnceLock<ReadOnly>,
}

/// Why nothing is written any more. What was committed can be read, but for what is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnly {
    /// A transaction met damage, and nobody knows what is left of it in memory.
    Damage,
    /// A write failed, and nobody knows what of it is on the medium.
    Failure,
}

impl std::fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReadOnly::Damage => "the metadata store is damaged (stop it, and run cuesta fsck)",
            ReadOnly::Failure => {
                "a write failed (once the medium takes writes again, stop it and start it anew)"
            }
        })
    }
}

/// Held by the one transaction that writes.
pub(super) type Writing = ArcMutexGuard<RawMutex, ()>;

/// What transactions use, too.
pub(super) struct Shared {
    files: Files,
    cache_bytes: u64,
    current: RwLock<Current>,
    /// A commit of the tree ended with an error, and may have been done all the same: where a next transaction would go
    /// is not known.
    in_doubt: AtomicBool,
    /// It is the next one's.
    is_left: AtomicBool,
    /// The store was opened anew, and the journal was not as it was any more.
    flaw: OnceLock<JournalFlaw>,
    /// What the last transaction left to the next.
    spare: Mutex<Spare>,
    /// The medium that is played where it lies.
    emulated: OnceLock<Arc<Emulated>>,
    /// Who is told of what transactions change.
    pub(super) watch: OnceLock<Arc<dyn Watch>>,
}

/// What is committed, and where.
struct Current {
    opened: Arc<Opened>,
    /// The tree as it was last written, once somebody has read it.
    tree: Option<Arc<TreeAt>>,
    /// What the journal holds.
    overlay: Arc<Overlay>,
    journal: Place,
}

impl MetadataStore {
    /// Makes an empty store; not even the root is in it.
    pub fn create(path: &Path, medium: Medium) -> Result<MetadataStore, MetadataError> {
        let files = Files::new(path, medium);
        if files.exist() != Exist::No {
            return Err(MetadataError::Exists(path.to_path_buf()));
        }
        let store = MetadataStore::attach(files, CACHE_BYTES)?;
        guarded(|| {
            let tree = store.begin_tree()?;
            for table in Table::ALL {
                tree.open_table(table.definition())?;
            }
            let mut counters = tree.open_table(Table::Counters.definition())?;
            let versions = [(FORMAT_COUNTER, FORMAT_VERSION), (JOURNAL_COUNTER, 0)];
            for (name, value) in versions.into_iter().chain(Counters::default().named()) {
                counters.insert(name.as_bytes(), &value.to_le_bytes()[..])?;
            }
            drop(counters);
            tree.commit()
        })?;
        Ok(store)
    }

    /// Opens a store as it was left, by a clean end or by a kill: as of the last commit.
    pub fn open(path: &Path, medium: Medium) -> Result<MetadataStore, MetadataError> {
        MetadataStore::open_caching(Files::new(path, medium), CACHE_BYTES)
    }

    /// As [`MetadataStore::open`], with up to `cache_bytes` of its pages kept in memory.
    pub fn open_caching(files: Files, cache_bytes: u64) -> Result<MetadataStore, MetadataError> {
        let (store, loss) = MetadataStore::open_with_journal(files, cache_bytes)?;
        if let Some(loss) = loss {
            return Err(MetadataError::Journal(loss.flaw));
        }
        store.check_whole()?;
        Ok(store)
    }

    /// As [`MetadataStore::open`], but of a journal that is damaged with what it holds before that.
    pub fn open_sound_part(files: Files) -> Result<SoundPart, MetadataError> {
        let (store, loss) = MetadataStore::open_with_journal(files, CACHE_BYTES)?;
        store.check_whole()?;
        Ok(SoundPart::new(store, loss))
    }

    fn check_whole(&self) -> Result<(), MetadataError> {
        let snapshot = self.read()?;
        snapshot.check_tables()?;
        snapshot.counters()?;
        Ok(())
    }

    /// Opens it with what the journal holds, as far as that is sound.
    fn open_with_journal(
        files: Files,
        cache_bytes: u64,
    ) -> Result<(MetadataStore, Option<JournalLoss>), MetadataError> {
        match files.exist() {
            Exist::No => return Err(MetadataError::Missing(files.path().to_path_buf())),
            Exist::Empty => return Err(MetadataError::Foreign(files.path().to_path_buf())),
            Exist::Yes => {}
        }
        let store = MetadataStore::attach(files, cache_bytes)?;
        // Behind a tree of another version there is no journal that could be read.
        let tree = guarded(|| store.shared.current.read().opened.read_tree())?;
        let found = Snapshot::new(tree, Arc::default()).counter(FORMAT_COUNTER)?.unwrap_or(0);
        if found != FORMAT_VERSION {
            return Err(MetadataError::Version { found, expected: FORMAT_VERSION });
        }
        let loss = guarded(|| store.shared.current.write().read_journal(Flawed::Take))?;
        Ok((store, loss))
    }

    fn attach(files: Files, cache_bytes: u64) -> Result<MetadataStore, MetadataError> {
        let opened = Arc::new(Opened::new(&files, cache_bytes)?);
        let current = Current { opened, tree: None, overlay: Arc::default(), journal: Place::default() };
        let (current, watch) = (RwLock::new(current), OnceLock::new());
        let emulated = OnceLock::new();
        let (in_doubt, is_left) = (AtomicBool::new(false), AtomicBool::new(false));
        let (flaw, spare) = (OnceLock::new(), Mutex::default());
        let shared = Shared { files, cache_bytes, current, in_doubt, is_left, flaw, spare, emulated, watch };
        let shared = Arc::new(shared);
        Ok(MetadataStore { shared, writer: Arc::default(), read_only: OnceLock::new() })
    }

    /// Every transaction that begins from now on tells `watch` what it changed. There is one who watches: the first.
    pub fn watch(&self, watch: Arc<dyn Watch>) {
        let _ = self.shared.watch.set(watch);
    }

    /// Has it play another medium.
    pub fn emulate(&self, emulated: &Arc<Emulated>) {
        let _ = self.shared.emulated.set(Arc::clone(emulated));
        self.file().emulate(emulated);
    }

    /// Begins a transaction of the tree itself, past the journal: by who makes a store.
    pub(super) fn begin_tree(&self) -> Result<Tree, MetadataError> {
        self.shared.current.read().opened.begin_tree()
    }

    fn file(&self) -> Arc<BackendFile> {
        Arc::clone(&self.shared.current.read().opened.file)
    }

    /// What is committed now.
    pub fn read(&self) -> Result<Snapshot, MetadataError> {
        self.shared.read()
    }

    /// Writes nothing any more; the first reason stays.
    pub fn refuse_writes(&self, why: ReadOnly) {
        let _ = self.read_only.set(why);
    }

    /// Whether it writes nothing any more.
    pub fn is_read_only(&self) -> bool {
        self.read_only().is_some()
    }

    /// Why it writes nothing any more.
    pub fn read_only(&self) -> Option<ReadOnly> {
        self.read_only.get().copied()
    }

    /// Closes the store for good, behind the transaction that there may be: it is the next one's, whoever still holds this.
    /// redb writes its last here, and not when the last reader lets go.
    pub fn leave(&self) {
        let _writing = self.writer.lock();
        let mut current = self.shared.current.write();
        // First: who comes across the rest of it finds out why.
        self.shared.is_left.store(true, Ordering::Release);
        current.tree = None;
        // Who writes has it, too, and nobody does.
        if let Some(opened) = Arc::get_mut(&mut current.opened) {
            opened.close();
        }
        current.opened.file.give_up();
    }

    /// Begins the one transaction that writes; waits while there is another.
    pub fn begin(&self) -> Result<Transaction, MetadataError> {
        // The order matters: only once no other writer is left does a snapshot show the last commit.
        let writing = self.writer.lock_arc();
        self.shared.check_kept()?;
        match self.read_only() {
            Some(ReadOnly::Damage) => {
                return Err(MetadataError::Damaged("it is only read until cuesta fsck has been run".into()));
            }
            Some(ReadOnly::Failure) => return Err(MetadataError::Failed),
            None if self.shared.in_doubt.load(Ordering::Relaxed) => return Err(MetadataError::Failed),
            None => {}
        }
        let snapshot = self.shared.read()?;
        match self.shared.flaw.get() {
            Some(&flaw) => Err(MetadataError::Journal(flaw)),
            None => Transaction::new(Arc::clone(&self.shared), writing, snapshot),
        }
    }

    /// Bytes the store can grow by without asking the medium for more, apart from what the journal's changes may take.
    pub fn slack_bytes(&self) -> u64 {
        let current = self.shared.current.read();
        current.opened.file.slack_bytes().saturating_sub(current.set_aside_bytes())
    }

    /// Asks the medium for room now, so that the store can grow by `bytes` without asking then. Where it has none, what is set
    /// aside for the journal's changes is made use of. By who has no transaction.
    pub fn ensure_slack(&self, bytes: u64) -> Result<(), MetadataError> {
        if self.make_slack(bytes).is_ok() {
            return Ok(());
        }
        match self.write_out() {
            Err(error @ (MetadataError::Damaged(_) | MetadataError::Journal(_))) => {
                tracing::error!(%error, "the metadata store is damaged, and only read from now on");
                self.refuse_writes(ReadOnly::Damage);
                return Err(MetadataError::NoSpace);
            }
            written => written?,
        }
        self.make_slack(bytes)
    }

    /// The same, as far as the medium has room.
    pub fn make_slack(&self, bytes: u64) -> Result<(), MetadataError> {
        if self.slack_bytes() >= bytes {
            return Ok(());
        }
        let current = self.shared.current.read();
        let (file, set_aside) = (Arc::clone(&current.opened.file), current.set_aside_bytes());
        drop(current);
        let made = file.ensure_slack(bytes.saturating_add(set_aside));
        made.map_err(|error| if error.is_full() { MetadataError::NoSpace } else { error.into() })
    }

    /// Writes what the journal holds to the tree.
    pub fn write_out(&self) -> Result<(), MetadataError> {
        if self.shared.current.read().journal.end == 0 {
            return Ok(());
        }
        self.begin()?.write_out()
    }

    /// Whether it was left.
    pub fn is_left(&self) -> bool {
        self.shared.is_left.load(Ordering::Acquire)
    }

    /// The medium is found full behind so many more syncs.
    #[cfg(test)]
    pub(super) fn fill_behind(&self, syncs: u64) {
        self.file().syncs_left.store(syncs, Ordering::Relaxed);
    }

    /// Bytes the store takes on its medium.
    pub fn allocated_bytes(&self) -> u64 {
        self.file().allocated_bytes()
    }

    /// Durably says of which opening of the store it is, even once it was left.
    pub fn stamp(&self, stamp: &Stamp) -> Result<(), MetadataError> {
        let stamped = self.file().copies().stamp(stamp);
        stamped.map_err(|error| MetadataError::Damaged(error.to_string()))
    }

    /// What was wrong with one copy of it and came from the other, since it was opened.
    pub fn flaws(&self) -> Vec<String> {
        self.file().copies().flaws()
    }

    /// How often one copy was mended from the other since it was opened.
    pub fn healed(&self) -> u64 {
        self.file().copies().healed()
    }

    /// Compares each page with its checksum in both copies, and mends one from the other. Answers how many neither has.
    pub fn scrub_copies(&self) -> Result<u64, MetadataError> {
        let _writing = self.writer.lock();
        self.shared.check_kept()?;
        let file = self.file();
        let mut lost = 0;
        for page in (0..file.written_bytes()).step_by(PAGE_BYTES as usize) {
            // The first may have been torn by a crash; redb has its own checksums there.
            lost += u64::from(!file.copies().scrub(page) && page > 0);
        }
        let place = self.shared.current.read().journal;
        journal::scrub(&file, place).map_err(|error| MetadataError::Damaged(error.to_string()))?;
        Ok(lost)
    }

    /// Reads every page and checks its checksum: true if all is well, false if something was repaired.
    pub fn check_pages(&mut self) -> Result<bool, MetadataError> {
        let mut current = self.shared.current.write();
        current.tree = None;
        let opened = Arc::get_mut(&mut current.opened).ok_or(MetadataError::Failed)?;
        let database = opened.database.as_mut().ok_or(MetadataError::Left)?;
        guarded(|| Ok(database.check_integrity()?))
    }
}

impl Shared {
    /// What is committed now. After a transaction that found the medium full, which redb does not go on from, that is in
    /// the store opened anew.
    fn read(&self) -> Result<Snapshot, MetadataError> {
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
                // What it held is known: it is read on, and nothing is written any more, which would lose it.
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

    /// Whether the commit that began a journal was done, though it ended with an error: whoever is told that there was no room
    /// does it again. The store is opened anew for it.
    fn is_in_tree(&self, begun: JournalGeneration) -> Result<bool, MetadataError> {
        let found = self.read().and_then(|snapshot| snapshot.counter(JOURNAL_COUNTER));
        let found = found.inspect_err(|_| self.in_doubt.store(true, Ordering::Relaxed))?;
        Ok(found == Some(begun.0))
    }

    fn check_kept(&self) -> Result<(), MetadataError> {
        if self.is_left.load(Ordering::Acquire) { Err(MetadataError::Left) } else { Ok(()) }
    }

    /// Memory for a transaction.
    pub(super) fn spare(&self) -> Spare {
        std::mem::take(&mut *self.spare.lock())
    }

    /// Takes it back.
    pub(super) fn keep(&self, spare: Spare) {
        *self.spare.lock() = spare.emptied();
    }

    fn place(&self) -> (Arc<Opened>, Place) {
        let current = self.current.read();
        (Arc::clone(&current.opened), current.journal)
    }

    /// Writes what the journal holds to the tree, by who writes.
    pub(super) fn write_out_all(&self, _writing: &Writing, base: Snapshot) -> Result<(), MetadataError> {
        let (opened, journal) = self.place();
        self.write_out(&opened, journal, base, &Redo::default(), &NewNames::NONE)
    }

    /// Commits changes, by who writes, unless one of the names that are to be new exists.
    pub(super) fn commit(
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

    /// Writes what the journal holds and `redo` over it to the tree.
    fn write_out(
        &self,
        opened: &Arc<Opened>,
        journal: Place,
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
        // Whatever redb calls it where it came across a full medium; then the store is opened anew and says what was done.
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

/// Writes what the journal holds and `redo` over it to the tree, behind which the journal of generation `next` comes then.
fn write_tree(
    opened: &Opened,
    overlay: &Overlay,
    redo: &Redo,
    next: JournalGeneration,
    new_names: &NewNames<'_>,
) -> Result<Place, MetadataError> {
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
enum Flawed {
    /// What comes before the flaw is what there is.
    Take,
    /// What was known stays.
    Leave,
}

impl Current {
    /// What the tree's file may grow by when it takes what the journal holds.
    fn set_aside_bytes(&self) -> u64 {
        journal::growth_bytes(self.overlay.keys())
    }

    /// Finds what the journal holds, if it comes behind the tree; where that has a flaw, what comes before it is taken or left.
    fn read_journal(&mut self, flawed: Flawed) -> Result<Option<JournalLoss>, MetadataError> {
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
