//! That nothing is forgotten: every form an entry of the log can have, and every call that changes something, is crashed
//! in. Whoever adds one is told here.

use crate::without_bugs;
use cuesta_format::entry::{EntryKind, HEADER_BYTES, Header, Salt, VerifiedHeader};
use cuesta_format::operation::Attributes;
use cuesta_format::{
    BLOCK_BYTES, FileKind, LogGeneration, LogPosition, Operation as Logged, SessionId, StoreId,
};
use cuesta_sim::explorer::store::Step;
use cuesta_sim::explorer::tiered::{self, FastTier};
use cuesta_sim::explorer::tiers;
use cuesta_sim::explorer::workloads::{calls, details, population};
use cuesta_sim::generate::{Generator, Repertoire};
use cuesta_sim::operation::Operation;
use cuesta_sim::world::{self, World};
use serde::Deserialize;
use serde::de::value::Error as NotRead;
use serde::de::{Deserializer, Error, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The sessions and generations that a store of one client can have without fences.
const SALTS_TRIED: u64 = 4;
const GENERATED: usize = 20_000;

/// What entries of a kind can ask for that is applied in a way of its own.
fn forms_of(kind: EntryKind) -> Vec<String> {
    let forms = |of: &[&str]| of.iter().map(|form| format!("{kind:?} {form}")).collect();
    match kind {
        // No call of a program logs the end of a caller, nor what its log depends on; `crashes` has them.
        EntryKind::Void | EntryKind::ForgetCaller | EntryKind::DependOn => Vec::new(),
        EntryKind::Write
        | EntryKind::WriteStaged
        | EntryKind::Truncate
        | EntryKind::Link
        | EntryKind::Release
        | EntryKind::SetExtended
        | EntryKind::RemoveExtended => vec![format!("{kind:?}")],
        EntryKind::Create => {
            let kinds = (0..=u8::MAX).filter_map(FileKind::from_byte);
            let listed = ["File listed", "Directory listed"].map(|form| format!("{kind:?} {form}"));
            kinds.map(|made| format!("{kind:?} {made:?}")).chain(listed).collect()
        }
        EntryKind::CreateUnnamed => forms(&["linkable", "exclusive", "listed"]),
        EntryKind::SetAccessList => forms(&["list", "none"]),
        EntryKind::SetAttributes => forms(&["mode", "uid", "gid", "accessed", "modified"]),
        EntryKind::Unlink => forms(&["open", "closed"]),
        EntryKind::Rename => forms(&["plain", "open", "exchange"]),
        EntryKind::Clear => forms(&["grow", "keep"]),
        EntryKind::Shift => forms(&["insert", "collapse"]),
    }
}

/// The forms of an entry that was logged. No field is passed over: one that is added asks whether it makes a form.
fn forms(header: &Header, body: &[u8]) -> Vec<String> {
    let kind = header.kind;
    let one = |form: &str| vec![format!("{kind:?} {form}")];
    match Logged::decode(header, body) {
        Ok(Logged::Create {
            mode,
            list,
            parent: _,
            inode: _,
            uid: _,
            gid: _,
            device: _,
            name: _,
            target: _,
        }) => {
            let made = FileKind::from_mode(mode).expect("LibFS makes no other");
            let listed = if list.is_empty() { "" } else { " listed" };
            vec![format!("{kind:?} {made:?}{listed}")]
        }
        Ok(Logged::CreateUnnamed { exclusive, list, parent: _, inode: _, mode: _, uid: _, gid: _ }) => {
            let mut forms = one(if exclusive { "exclusive" } else { "linkable" });
            forms.extend((!list.is_empty()).then(|| format!("{kind:?} listed")));
            forms
        }
        Ok(Logged::SetAttributes { attributes, inode: _ }) => {
            let Attributes { mode, uid, gid, accessed, modified } = attributes;
            let set = [
                ("mode", mode.is_some()),
                ("uid", uid.is_some()),
                ("gid", gid.is_some()),
                ("accessed", accessed.is_some()),
                ("modified", modified.is_some()),
            ];
            set.iter().filter(|(_, set)| *set).flat_map(|(attribute, _)| one(attribute)).collect()
        }
        Ok(Logged::Unlink { orphan, parent: _, inode: _, name: _ }) => {
            one(if orphan { "open" } else { "closed" })
        }
        Ok(Logged::Rename {
            orphan,
            exchange,
            parent: _,
            name: _,
            new_parent: _,
            new_name: _,
            inode: _,
            replaced: _,
        }) => one(match (orphan, exchange) {
            (false, false) => "plain",
            (true, false) => "open",
            (_, true) => "exchange",
        }),
        Ok(Logged::Clear { grow, inode: _, offset: _, length: _ }) => one(if grow { "grow" } else { "keep" }),
        Ok(Logged::Shift { insert, inode: _, offset: _, length: _ }) => {
            one(if insert { "insert" } else { "collapse" })
        }
        Ok(Logged::SetAccessList { list, inode: _, mode: _ }) => {
            one(if list.is_empty() { "none" } else { "list" })
        }
        Ok(
            Logged::Void
            | Logged::Write { .. }
            | Logged::WriteStaged { .. }
            | Logged::Truncate { .. }
            | Logged::Link { .. }
            | Logged::Release { .. }
            | Logged::SetExtended { .. }
            | Logged::RemoveExtended { .. }
            | Logged::ForgetCaller { .. }
            | Logged::DependOn { .. },
        ) => vec![format!("{kind:?}")],
        // A body that goes on in the next segment.
        Err(_) => vec![format!("{kind:?}")],
    }
}

/// The forms of whatever the log segments of a store hold, by position.
fn logged(directory: &Path) -> BTreeMap<u64, Vec<String>> {
    let entry_bytes_max = world::small_geometry().entry_bytes_max();
    let numbers = || (0..SALTS_TRIED).flat_map(|session| (0..SALTS_TRIED).map(move |log| (session, log)));
    let salts: Vec<Salt> = numbers()
        .map(|(session, log)| Salt::new(StoreId([7; 16]), SessionId(session), LogGeneration(log)))
        .collect();
    let mut found = BTreeMap::new();
    for segment in std::fs::read_dir(directory.join("logs")).unwrap() {
        let bytes = std::fs::read(segment.unwrap().path()).unwrap();
        for (number, header) in bytes.chunks_exact(HEADER_BYTES).enumerate() {
            let header: &[u8; HEADER_BYTES] = header.try_into().unwrap();
            let position = LogPosition(u64::from_le_bytes(header[16..24].try_into().unwrap()));
            let verify = |salt: &Salt| VerifiedHeader::verify(header, *salt, position, entry_bytes_max).ok();
            let Some(header) = salts.iter().find_map(verify) else { continue };
            let start = (number + 1) * HEADER_BYTES;
            let end = (start + header.fields().body_bytes as usize).min(bytes.len());
            found.insert(position.0, forms(header.fields(), &bytes[start.min(end)..end]));
        }
    }
    found
}

#[test]
fn every_form_of_a_log_entry_is_crashed_in() {
    let _sound = without_bugs();
    let kinds = (0..=u8::MAX).filter_map(EntryKind::from_byte);
    let all: BTreeSet<String> = kinds.flat_map(forms_of).collect();
    let mut missing = all.clone();
    for call in calls().into_iter().chain(details()) {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        world::create(directory.path(), world::small_geometry()).unwrap();
        let mut world = World::open(directory.path()).unwrap();
        for step in population() {
            let Step::Call(_, setup) = step else { panic!("{step:?} is no call") };
            world.apply(&setup).unwrap();
        }
        let before = logged(directory.path());
        world.apply(&call).unwrap_or_else(|errno| panic!("{call:?}: {errno}"));
        let after = logged(directory.path());
        for form in after.into_iter().filter(|(at, _)| !before.contains_key(at)).flat_map(|(_, forms)| forms)
        {
            assert!(all.contains(&form), "{call:?} logs {form}, which is none");
            missing.remove(&form);
        }
    }
    assert_eq!(missing, BTreeSet::new());
}

/// Asks a type that is an enumeration for the names of its variants.
#[derive(Default)]
struct Variants(&'static [&'static str]);

impl<'de> Deserializer<'de> for &mut Variants {
    type Error = NotRead;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NotRead> {
        Err(NotRead::custom("no enumeration"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, NotRead> {
        self.0 = variants;
        Err(NotRead::custom("the names were all that was asked for"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

fn name_of(operation: &Operation) -> String {
    let json = serde_json::to_value(operation).unwrap();
    json.as_object().and_then(|object| object.keys().next().cloned()).unwrap()
}

#[test]
fn every_call_is_generated_and_crashed_in_if_it_changes_something() {
    let mut variants = Variants::default();
    Operation::deserialize(&mut variants).unwrap_err();
    let all: BTreeSet<String> = variants.0.iter().map(|name| (*name).to_owned()).collect();
    let mut generator = Generator::new(Repertoire::default(), 1);
    let generated: Vec<Operation> = (0..GENERATED).map(|_| generator.next_operation()).collect();
    let names: BTreeSet<String> = generated.iter().map(name_of).collect();
    assert_eq!(names, all, "what is generated, and what there is");
    let changing: BTreeSet<String> =
        generated.iter().filter(|call| call.is_mutation()).map(name_of).collect();
    let crashed_in: BTreeSet<String> = calls().iter().chain(&details()).map(name_of).collect();
    let missing: Vec<_> = changing.difference(&crashed_in).collect();
    assert!(missing.is_empty(), "nothing crashes in {missing:?}");
}

/// A scenario that left all content in the fast tier would show nothing of the lower one.
#[test]
fn every_scenario_of_a_lower_tier_has_content_there() {
    let _sound = without_bugs();
    let fast_blocks = world::small_tiered_geometry().nvm_bytes / BLOCK_BYTES;
    let mut amiss = Vec::new();
    for (name, setup, steps) in tiers::scenarios().into_iter().chain(tiers::handed_over()) {
        let workload = tiered::Workload { fast: FastTier::Memory, setup, steps };
        let used = tiered::blocks_used_most(&workload).unwrap_or_else(|reason| panic!("{name}: {reason}"));
        let is_full = used[0] * 10 > fast_blocks * 9;
        if used[1] == 0 || name.starts_with("full") && !is_full {
            amiss.push(format!("{name}: {used:?}"));
        }
    }
    assert!(amiss.is_empty(), "{}", amiss.join("\n"));
}
