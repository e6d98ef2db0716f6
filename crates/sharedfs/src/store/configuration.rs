//! `cuesta.toml`: every threshold of the daemon is a line here, with its default.

use crate::metadata::CACHE_BYTES;
use crate::tiers::{LowerTier, Region, check_tiers};
use cuesta_format::disk_profile::DISK_PRESETS;
use cuesta_format::durability::{OPTIMISTIC_MS_MAX, check_milliseconds};
use cuesta_format::emulation::Profile;
use cuesta_format::{BLOCK_BYTES, Durability, PersistenceDomain};
use cuesta_placement::Kind;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

/// Fewer undigested entries would have a thousand sessions wait for digests all the time.
const UNDIGESTED_ENTRIES_LEAST: u64 = 10_000;
/// The longest message, and what it is answered.
const USER_MESSAGE_BYTES_LEAST: u64 = 18 << 20;
/// redb wants some pages at hand.
const METADATA_CACHE_BYTES_LEAST: u64 = 1 << 20;
/// A lease that is taken away before its holder could use it once is of no use. No session waits longer for
/// another's lease.
const LEASE_HOLD_US: RangeInclusive<u64> = 200..=100_000;

/// What can be set. A file that leaves a line out gets its default; an unknown line is an error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Most bytes of a log that one digest transaction takes.
    pub digest_batch_bytes: u64,
    /// How long a log that is not full may wait for its digest, in milliseconds.
    pub digest_idle_ms: u64,
    /// A session asks for a digest after this many bytes.
    pub kick_bytes: u64,
    /// Most entries all logs together may hold undigested.
    pub undigested_entries: u64,
    /// How long a session that goes on keeps a lease others want too, at least, in microseconds.
    pub lease_hold_us: u64,
    /// Whole blocks of a write from which on a session writes them where they stay, in bytes; 0: everything goes by the log.
    pub stage_bytes: u32,
    /// On which files the daemon performs the operations of all who share them.
    pub ship: Ship,
    /// On a disk, how often a session waits for its log's own pages before it gets a commit file.
    pub commit_file_waits: u32,
    /// On a disk, how long a wait for it keeps its processor awake, in microseconds.
    pub awake_us: u32,
    /// On a disk, when calls that ask for durability return.
    pub durability: Durability,
    /// In optimistic mode, in which time the disk has what returned, in milliseconds.
    pub optimistic_ms_max: u32,
    /// Recovery assumes a loss of power, although the machine was not started anew. For simulations.
    #[serde(skip)]
    pub assume_power_loss: bool,
    /// Log segments kept ready, touched, for the next sessions.
    pub spare_segments: u32,
    /// Arenas kept ready beyond what is in use.
    pub spare_arenas: u32,
    /// Inode numbers handed to a session at a time.
    pub inode_numbers: u32,
    /// Bytes of memory the metadata store may cache.
    pub metadata_cache_bytes: u64,
    /// Events kept for `cuesta trace`.
    pub trace_events: u32,
    /// Whether programs that outlive a daemon go on with the next one.
    pub await_sessions: bool,
    /// The medium that is played on the store's own.
    #[serde(deserialize_with = "profile")]
    pub emulate: Profile,
    /// Where stores to persistent memory are durable.
    pub persistence_domain: Domain,
    /// Runs of content that are as long go to the tier below the fast one.
    pub large_run_bytes: u64,
    /// While the fast tier is fuller than this, in percent, shorter runs go there, too.
    pub nearly_full_percent: u8,
    /// Below a store in memory, how long content of a lower tier waits for its disk, in milliseconds.
    pub tier_write_back_ms: u32,
    /// By which policy content moves between tiers by itself.
    pub migration: MigrationRule,
    /// Content that was changed in so many last seconds does not move down, unless a tier is full.
    pub cold_seconds: u32,
    /// Most content that moves by itself, in 10⁶ bytes a second; 0: no limit.
    pub migration_mb_per_second: u32,
    /// Limits of one other user.
    pub users: UserLimits,
    /// The numbers of tiers that were taken out. They are not used again.
    pub removed_tiers: Vec<u8>,
    /// The tiers below the fast one, by what people call them.
    pub tier: BTreeMap<String, LowerTier>,
}

/// How much of the daemon one user may have that is neither the store's own nor root. All of them together may have
/// four times as much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UserLimits {
    /// Processes that are served at once.
    pub connections: u64,
    /// Open files.
    pub open_files: u64,
    /// Bytes of messages that are on their way.
    pub message_bytes: u64,
    /// How long a message may be on its way, in seconds.
    pub message_seconds: u64,
}

impl Default for UserLimits {
    fn default() -> Self {
        UserLimits { connections: 256, open_files: 8192, message_bytes: 36 << 20, message_seconds: 30 }
    }
}

impl UserLimits {
    fn check(&self) -> Result<(), String> {
        if self.connections == 0 || self.open_files == 0 || self.message_seconds == 0 {
            return Err("connections, open_files and message_seconds of [users] must not be 0".into());
        }
        if self.message_bytes < USER_MESSAGE_BYTES_LEAST {
            return Err(format!("message_bytes of [users] must be at least {USER_MESSAGE_BYTES_LEAST}"));
        }
        Ok(())
    }
}

fn profile<'de, D: Deserializer<'de>>(text: D) -> Result<Profile, D::Error> {
    String::deserialize(text)?.parse().map_err(serde::de::Error::custom)
}

/// The persistence domain that is assumed of persistent memory, whatever the kernel says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// As the kernel says.
    #[default]
    Auto,
    /// Stores are durable in a cache.
    CpuCache,
    /// Lines are written back.
    MemoryController,
}

impl Domain {
    /// The domain of a store on that region.
    #[must_use]
    pub fn of(self, region: Option<Region>) -> PersistenceDomain {
        match self {
            Domain::Auto => region.map_or(PersistenceDomain::MemoryController, |region| region.domain),
            Domain::CpuCache => PersistenceDomain::CpuCache,
            Domain::MemoryController => PersistenceDomain::MemoryController,
        }
    }
}

/// On which files SharedFS performs the operations of all who share them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ship {
    /// On those that change hands for a few operations each time.
    #[default]
    Auto,
    /// On none.
    Never,
    /// On all that may be.
    Always,
    /// On some for a moment, then on others: so that switching a file meets everything else.
    Random,
}

/// By which policy content moves between tiers by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MigrationRule {
    /// [`Kind::Ziggurat`].
    Ziggurat,
    /// [`Kind::Frequency`].
    Frequency,
    /// [`Kind::Benefit`].
    #[default]
    Benefit,
    /// None does.
    Off,
}

impl MigrationRule {
    /// The policy; `None`: nothing moves by itself.
    #[must_use]
    pub fn policy(self) -> Option<Kind> {
        match self {
            MigrationRule::Ziggurat => Some(Kind::Ziggurat),
            MigrationRule::Frequency => Some(Kind::Frequency),
            MigrationRule::Benefit => Some(Kind::Benefit),
            MigrationRule::Off => None,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            digest_batch_bytes: 16 << 20,
            digest_idle_ms: 100,
            kick_bytes: 4 << 20,
            undigested_entries: 200_000,
            lease_hold_us: 1000,
            stage_bytes: 64 << 10,
            ship: Ship::Auto,
            commit_file_waits: 3,
            awake_us: 1000,
            durability: Durability::Pessimistic,
            optimistic_ms_max: OPTIMISTIC_MS_MAX,
            assume_power_loss: false,
            spare_segments: 16,
            spare_arenas: 2,
            inode_numbers: 4096,
            metadata_cache_bytes: CACHE_BYTES,
            trace_events: 16_384,
            await_sessions: true,
            emulate: Profile::default(),
            persistence_domain: Domain::Auto,
            large_run_bytes: 1 << 20,
            nearly_full_percent: 90,
            tier_write_back_ms: 1000,
            migration: MigrationRule::Benefit,
            cold_seconds: 30,
            migration_mb_per_second: 0,
            users: UserLimits::default(),
            removed_tiers: Vec::new(),
            tier: BTreeMap::new(),
        }
    }
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// It cannot be read.
    #[error("cannot read the configuration {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what it should be.
    #[error("the configuration {path} is wrong: {message}")]
    Content {
        /// The file.
        path: String,
        /// What and where.
        message: String,
    },
}

/// The text of a new store's `cuesta.toml`: each line with its default, commented out, but for the medium that is
/// played if one is.
#[must_use]
pub fn template(emulate: Profile, durability: Durability) -> String {
    let Options {
        digest_batch_bytes,
        digest_idle_ms,
        kick_bytes,
        undigested_entries,
        lease_hold_us,
        stage_bytes,
        ship: _,
        commit_file_waits,
        awake_us,
        durability: default_durability,
        optimistic_ms_max,
        assume_power_loss: _,
        spare_segments,
        spare_arenas,
        inode_numbers,
        metadata_cache_bytes,
        trace_events,
        await_sessions,
        emulate: default_emulate,
        persistence_domain: _,
        large_run_bytes,
        nearly_full_percent,
        tier_write_back_ms,
        migration: _,
        cold_seconds,
        migration_mb_per_second,
        users: UserLimits { connections, open_files, message_bytes, message_seconds },
        removed_tiers: _,
        tier: _,
    } = Options::default();
    let mark = if emulate == default_emulate { "# " } else { "" };
    let durability_mark = if durability == default_durability { "# " } else { "" };
    format!(
        "# Configuration of this Cuesta store. Each line shows its default; remove the leading #\n\
         # to change it, then restart the daemon (cuesta stop, cuesta serve).\n\
         \n\
         # Most bytes of a log that one digest transaction takes. Larger batches coalesce more and\n\
         # copy in longer runs; smaller ones free log space sooner.\n\
         # digest_batch_bytes = {digest_batch_bytes}\n\
         \n\
         # How long a log that is not full may wait for its digest, in milliseconds.\n\
         # digest_idle_ms = {digest_idle_ms}\n\
         \n\
         # A program asks for a digest after it has logged this many bytes; on a disk, one that waits for it (see\n\
         # commit_file_waits) after 1 MiB at most.\n\
         # kick_bytes = {kick_bytes}\n\
         \n\
         # Most log entries that all programs together may leave undigested: what a start after a crash\n\
         # has to work through. Shared out equally.\n\
         # undigested_entries = {undigested_entries}\n\
         \n\
         # How long a program that goes on keeps what several change in turns, at least, in microseconds. Longer lets\n\
         # each do more at a time; shorter lets the others wait less.\n\
         # lease_hold_us = {lease_hold_us}\n\
         \n\
         # A program writes the whole blocks of a write of so many bytes once, where they stay, and not by its log; over\n\
         # content from twice as many on. At least 4096; 0: everything goes by the log, and is copied from there.\n\
         # stage_bytes = {stage_bytes}\n\
         \n\
         # On which files and directories the daemon performs the operations of all programs that share them: \"auto\", on those\n\
         # that change hands for a few operations each time; \"never\"; \"always\"; or \"random\", on some for a moment and then on\n\
         # others, which is for tests.\n\
         # ship = \"auto\"\n\
         \n\
         # On a disk: how often a program waits for it (fsync) before it gets a file of 2 MiB, by which its waits become\n\
         # shorter.\n\
         # commit_file_waits = {commit_file_waits}\n\
         \n\
         # On a disk: a program that waits for it keeps the processor awake for so long, in microseconds, while no other wants it; a\n\
         # fast disk's answer arrives sooner by that. 0: the program sleeps, and takes less processor time.\n\
         # awake_us = {awake_us}\n\
         \n\
         # On a disk: \"pessimistic\", fsync returns once the disk has everything; \"optimistic\", it returns at once, and the disk\n\
         # has everything at most optimistic_ms_max milliseconds later. A loss of power then leaves what all programs had\n\
         # done at one moment. `cuesta dsync` waits for the disk. Programs and mounts may ask for either.\n\
         {durability_mark}durability = \"{durability}\"\n\
         # optimistic_ms_max = {optimistic_ms_max}\n\
         \n\
         # Log segments kept ready, their memory touched, so that a program starts quickly.\n\
         # spare_segments = {spare_segments}\n\
         \n\
         # Arenas allocated ahead of need, so that no write waits for one.\n\
         # spare_arenas = {spare_arenas}\n\
         \n\
         # Inode numbers handed to a program at a time.\n\
         # inode_numbers = {inode_numbers}\n\
         \n\
         # Memory the metadata store may use as its cache, in bytes.\n\
         # metadata_cache_bytes = {metadata_cache_bytes}\n\
         \n\
         # Events kept for `cuesta trace`.\n\
         # trace_events = {trace_events}\n\
         \n\
         # Whether programs that outlive a daemon go on with the next one. Their logs are kept for them\n\
         # until they end.\n\
         # await_sessions = {await_sessions}\n\
         \n\
         # Play a slower medium on this one (memory or pmem): dram (none), optane-pmm, optane-pmm-x6, or figures of your\n\
         # own, like read_ns=300,write_ns=500,read_mb_s=5000,write_mb_s=2000. What is faster than the medium is not\n\
         # obtained: cuesta calibrate STORE measures it. Programs that run keep what they were started with.\n\
         {mark}emulate = \"{emulate}\"\n\
         \n\
         # Where what is stored to persistent memory survives a loss of power: \"memory_controller\", so that lines are\n\
         # written back (ADR), \"cpu_cache\", so that they need not be (eADR), or \"auto\": as the kernel says.\n\
         # persistence_domain = \"auto\"\n\
         \n\
         # With lower tiers ([tier.NAME], cuesta mkfs --tier): runs of content of so many bytes go to the tier below the fast one,\n\
         # and runs of a sixteenth while the fast tier is fuller than so many percent.\n\
         # large_run_bytes = {large_run_bytes}\n\
         # nearly_full_percent = {nearly_full_percent}\n\
         \n\
         # Below a store in memory no program waits for lower tiers. The daemon flushes them to their disks so many milliseconds\n\
         # after they were written, and learns when a disk fails.\n\
         # tier_write_back_ms = {tier_write_back_ms}\n\
         \n\
         # Which content moves to a lower tier by itself if a tier is too full: \"benefit\", what was used least lately;\n\
         # \"frequency\", what was used only once; \"ziggurat\", what was written longest ago; \"off\", none. What was written in the last\n\
         # cold_seconds stays. What is read below comes up: with ziggurat if there is room, with the others if it is used more than\n\
         # what would leave. migration_mb_per_second limits it (0: no limit).\n\
         # migration = \"benefit\"\n\
         # cold_seconds = {cold_seconds}\n\
         # migration_mb_per_second = {migration_mb_per_second}\n\
         \n\
         # How much of the daemon a user that is neither the store's own nor root may have: processes served at once, open\n\
         # files, bytes of messages on their way, and how many seconds a message may be on its way. All of them together may\n\
         # have four times as much, and of the daemon's descriptors half.\n\
         # [users]\n\
         # connections = {connections}\n\
         # open_files = {open_files}\n\
         # message_bytes = {message_bytes}\n\
         # message_seconds = {message_seconds}\n"
    )
}

/// What is wrong with a text, and in which line.
fn in_a_line(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map(|before| format!("line {}: ", before.matches('\n').count() + 1));
    line.unwrap_or_default() + &error.message().replace('\n', "; ")
}

/// The lines of `cuesta.toml` that name lower tiers.
#[must_use]
pub fn tiers_template(tiers: &BTreeMap<String, LowerTier>) -> String {
    let mut text = String::new();
    let mut ordered: Vec<_> = tiers.iter().collect();
    ordered.sort_by_key(|(_, tier)| tier.number);
    for (name, LowerTier { number, path, bytes, profile, removing: _ }) in ordered {
        let path = toml::Value::String(path.display().to_string());
        let names = DISK_PRESETS.map(|(name, _)| name).join(", ");
        let profile = match profile.is_none() {
            true => "# profile = \"hdd\"".to_owned(),
            false => format!("profile = \"{profile}\""),
        };
        text += &format!(
            "\n# A lower tier: its number (1 is right below the fast tier), its folder, and bytes of content it may hold. A profile\n\
             # plays a slower disk on it: {names}, or figures of your own, like\n\
             # {{ read_ns = 80000, write_ns = 85000, read_mb_s = 500, write_mb_s = 500 }}; cuesta calibrate STORE --tier {name}\n\
             # measures it.\n\
             [tier.{name}]\nnumber = {number}\npath = {path}\nbytes = {bytes}\n{profile}\n"
        );
    }
    text
}

impl Options {
    /// The tiers below the fast one, in their order.
    #[must_use]
    pub fn lower_tiers(&self) -> Vec<LowerTier> {
        let mut tiers: Vec<LowerTier> = self.tier.values().cloned().collect();
        tiers.sort_by_key(|tier| tier.number);
        tiers
    }

    /// Reads `path`; a missing file means the defaults.
    pub fn load(path: &Path) -> Result<Options, ConfigurationError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Options::parse(&text)
                .map_err(|message| ConfigurationError::Content { path: path.display().to_string(), message }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Options::default()),
            Err(source) => Err(ConfigurationError::Read { path: path.display().to_string(), source }),
        }
    }

    /// Reads the text of a configuration.
    pub fn parse(text: &str) -> Result<Options, String> {
        let options: Options = toml::from_str(text).map_err(|error| in_a_line(text, &error))?;
        if options.digest_batch_bytes < 64 << 10 || options.digest_batch_bytes > 1 << 30 {
            return Err("digest_batch_bytes must be from 65536 to 1073741824".into());
        }
        if options.inode_numbers == 0 || options.kick_bytes == 0 || options.trace_events == 0 {
            return Err("inode_numbers, kick_bytes and trace_events must not be 0".into());
        }
        if (1..BLOCK_BYTES as u32).contains(&options.stage_bytes) {
            return Err(format!("stage_bytes must be 0, or at least {BLOCK_BYTES}"));
        }
        if options.undigested_entries < UNDIGESTED_ENTRIES_LEAST {
            return Err(format!("undigested_entries must be at least {UNDIGESTED_ENTRIES_LEAST}"));
        }
        if options.metadata_cache_bytes < METADATA_CACHE_BYTES_LEAST {
            return Err(format!("metadata_cache_bytes must be at least {METADATA_CACHE_BYTES_LEAST}"));
        }
        if !LEASE_HOLD_US.contains(&options.lease_hold_us) {
            let (least, most) = (LEASE_HOLD_US.start(), LEASE_HOLD_US.end());
            return Err(format!("lease_hold_us must be from {least} to {most}"));
        }
        if options.large_run_bytes < BLOCK_BYTES || options.nearly_full_percent > 100 {
            return Err(format!(
                "large_run_bytes must be {BLOCK_BYTES} at least, and nearly_full_percent 100 at most"
            ));
        }
        check_milliseconds(options.optimistic_ms_max)?;
        options.users.check()?;
        check_tiers(&options.tier, &options.removed_tiers)?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::disk_profile::DiskProfile;

    #[test]
    fn the_template_is_all_defaults_and_each_line_is_known() {
        let template = template(Profile::default(), Durability::default());
        assert_eq!(Options::parse(&template).unwrap(), Options::default());
        let uncommented: String = template
            .lines()
            .filter_map(|line| {
                line.strip_prefix("# ").filter(|line| line.contains(" = ") || line.starts_with('['))
            })
            .fold(String::new(), |text, line| text + line + "\n");
        assert_eq!(uncommented.lines().count(), 30);
        assert_eq!(Options::parse(&uncommented).unwrap(), Options::default());
    }

    #[test]
    fn lower_tiers_are_read_as_they_are_written_and_have_numbers_without_gaps() {
        let tier = |number, path: &str| {
            let profile = DiskProfile::default();
            LowerTier { number, path: path.into(), bytes: 5 << 30, profile, removing: false }
        };
        let tiers: BTreeMap<String, LowerTier> =
            [("ssd".into(), tier(1, "/mnt/a \"b\"")), ("hdd".into(), tier(2, "/mnt/c"))].into();
        let options =
            Options::parse(&(template(Profile::default(), Durability::default()) + &tiers_template(&tiers)))
                .unwrap();
        assert_eq!((options.tier, tiers_template(&BTreeMap::new())), (tiers, String::new()));
        let two = tiers_template(&[("disk".into(), tier(2, "/mnt"))].into());
        assert!(Options::parse(&two).unwrap_err().contains("must be 1, 2"));
        let relative = tiers_template(&[("disk".into(), tier(1, "mnt"))].into());
        assert!(Options::parse(&relative).unwrap_err().contains("[tier.disk]"));
    }

    #[test]
    fn a_disk_to_play_is_read_as_it_is_written_and_from_a_table() {
        let tier = |profile: &str| {
            let profile = profile.parse().unwrap();
            LowerTier { number: 1, path: "/mnt".into(), bytes: 5 << 30, profile, removing: false }
        };
        for profile in ["nvme", "sata-ssd", "hdd", "optane-ssd", "hdd,seek_ns=4000000", "read_ns=5"] {
            let tiers: BTreeMap<String, LowerTier> = [("disk".into(), tier(profile))].into();
            assert_eq!(Options::parse(&tiers_template(&tiers)).unwrap().tier, tiers, "{profile}");
        }
        let text = |profile: &str| {
            format!(
                "kick_bytes = 1\n[tier.disk]\nnumber = 1\npath = \"/mnt\"\nbytes = 5\nprofile = {profile}\n"
            )
        };
        let figures = Options::parse(&text("{ read_ns = 3, write_mb_s = 20 }")).unwrap();
        assert_eq!(figures.tier["disk"].profile, tier("read_ns=3,write_mb_s=20").profile);
        for (profile, word) in [
            ("\"tape\"", "\"tape\""),
            ("{ read_us = 3 }", "\"read_us\""),
            ("{ read_mb_s = 3 }", "from 10 to"),
            ("7", "\"hdd\""),
        ] {
            let error = Options::parse(&text(profile)).unwrap_err();
            assert!(error.starts_with("line 6: ") && error.contains(word), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let unknown = Options::parse(&text("\"tape\"")).unwrap_err();
        assert!(
            unknown.contains("nvme, sata-ssd, hdd, optane-ssd") && unknown.contains("flush_ns"),
            "{unknown}"
        );
    }

    #[test]
    fn a_medium_to_play_is_read_as_it_is_written() {
        for text in ["optane-pmm", "read_ns=300,write_mb_s=2000"] {
            let emulate: Profile = text.parse().unwrap();
            let options = Options { emulate, ..Options::default() };
            assert_eq!(Options::parse(&template(emulate, Durability::default())).unwrap(), options);
        }
        let error = Options::parse("emulate = \"optane\"").unwrap_err();
        assert!(error.contains("optane-pmm-x6") && error.contains("read_mb_s"), "{error}");
    }

    #[test]
    fn mistakes_are_named() {
        assert!(Options::parse("digest_batch = 3").unwrap_err().contains("digest_batch"));
        assert!(Options::parse("kick_bytes = 0").unwrap_err().contains("kick_bytes"));
        assert!(Options::parse("digest_batch_bytes = 1").is_err());
        assert!(Options::parse("metadata_cache_bytes = 1000").unwrap_err().contains("1048576"));
        assert!(Options::parse("undigested_entries = 1").unwrap_err().contains("10000"));
        assert!(Options::parse("users.connections = 0").unwrap_err().contains("[users]"));
        assert!(Options::parse("users.message_bytes = 1000").unwrap_err().contains("message_bytes"));
        for wrong in ["lease_hold_us = 100001", "lease_hold_us = 0"] {
            assert!(Options::parse(wrong).unwrap_err().contains("from 200 to 100000"));
        }
    }
}
