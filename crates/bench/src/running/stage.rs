//! Everything that has to be there before something can be measured: the peers that were asked for, and what is known of
//! those that could not be had.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::environment::machine::Machine;
use crate::environment::scratch::{Journalled, Scratch};
use crate::error::{BenchError, Context};
use crate::figures::units::GIB;
use crate::peers::cuesta::{Cuesta, Place};
use crate::peers::kernel::Kernel;
use crate::peers::mount::{Mount, Null, bindfs};
use crate::peers::name::PeerName;
use crate::peers::peer::Peer;
use crate::processes::child;
use crate::running::runner::Settings;

/// Size of the tmpfs for what is not the peer's.
const ELSEWHERE_BYTES: u64 = 4 * GIB;
const KERNEL_BYTES: u64 = 4 * GIB;
const CUESTA_BYTES_MAX: u64 = 16 * GIB;
const DISK_BYTES: u64 = 6 * GIB;
/// The fast tier of the store that spills, of any `--nvm`: the work `rocksdb-spill` writes twenty times as much,
const SPILL_NVM: &str = "128M";
/// and the tier below.
const LOWER_TIER: &str = "5G";

/// What peers are made of.
#[derive(Debug, Args)]
pub struct Materials {
    /// The `cuesta` command [default: beside this program].
    #[arg(long, value_name = "PATH")]
    cuesta: Option<PathBuf>,
    /// Size of the fast tier of the store.
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    nvm: String,
    /// A directory on a disk, for the images of ext4-disk, xfs-disk, on-disk, mount-disk, optimistic, eatmydata and spill
    /// (6 GiB each).
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    disk_dir: PathBuf,
}

/// The peers, set up; dropping it takes them down.
pub struct Stage {
    /// Those that could be had, in the order they were asked for. They end before the place they lie in does.
    pub peers: Vec<Box<dyn Peer>>,
    /// Those that could not, and why.
    pub skipped: BTreeMap<PeerName, String>,
    scratch: Scratch,
    binary: PathBuf,
    own_executable: PathBuf,
}

impl Stage {
    /// Sets the peers of these names up. Call before any thread is started, as for `Scratch::new`.
    pub fn set_up(names: &[PeerName], materials: &Materials) -> Result<Self, BenchError> {
        // The namespace comes first: threads started before it would not see its mounts.
        let scratch = Scratch::new()?;
        child::catch_interrupts()?;
        let own_executable = std::env::current_exe().context("finding our own executable")?;
        let binary = materials.cuesta.clone().unwrap_or_else(|| own_executable.with_file_name("cuesta"));
        let (peers, skipped) = (Vec::new(), BTreeMap::new());
        let mut stage = Stage { peers, skipped, scratch, binary, own_executable };
        for &name in names {
            if stage.peers.iter().any(|peer| peer.name() == name) {
                continue;
            }
            match stage.peer(name, materials) {
                Ok(peer) => stage.peers.push(peer),
                Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
                Err(reason) => {
                    let reason = reason.to_string().replace(&stage.private(), "(scratch)");
                    eprintln!("cuesta-bench: {} skipped: {reason}", name.as_str());
                    stage.skipped.insert(name, reason);
                }
            }
        }
        if stage.peers.is_empty() {
            return Err(BenchError::Unusable("no peer could be set up".to_owned()));
        }
        Ok(stage)
    }

    /// How to run on it what was not asked for by names.
    pub fn settings(&mut self, quick: bool, rounds: Option<u32>) -> Result<Settings, BenchError> {
        Ok(Settings {
            quick,
            is_named: false,
            rounds,
            fio: None,
            elsewhere: self.scratch.tmpfs("elsewhere", ELSEWHERE_BYTES)?,
            touched_bytes_max: touched_bytes_max().min(ELSEWHERE_BYTES),
            own_executable: self.own_executable.clone(),
        })
    }

    /// The machine, and the programs on it.
    pub fn machine(&self, fio: Option<&Path>) -> Machine {
        let has_cuesta = self.peers.iter().any(|peer| {
            matches!(
                peer.name(),
                PeerName::Cuesta
                    | PeerName::OnDisk
                    | PeerName::MountDisk
                    | PeerName::Optimistic
                    | PeerName::Spill
            )
        });
        Machine::describe(has_cuesta.then_some(&*self.binary), fio)
    }

    /// A path that must not show.
    pub fn private(&self) -> String {
        self.scratch.root().to_string_lossy().into_owned()
    }

    fn peer(&mut self, name: PeerName, materials: &Materials) -> Result<Box<dyn Peer>, BenchError> {
        let disk = &materials.disk_dir;
        let scratch = &mut self.scratch;
        let at = match name {
            PeerName::Cuesta
            | PeerName::Mount
            | PeerName::OnMount
            | PeerName::OnDisk
            | PeerName::MountDisk
            | PeerName::Optimistic
            | PeerName::Spill => {
                return self.cuesta(name, materials);
            }
            PeerName::Null => {
                return Ok(Box::new(Null::new(&self.own_executable, scratch.mount_point("null")?)?));
            }
            PeerName::Bindfs => {
                let below = scratch.tmpfs("below-bindfs", KERNEL_BYTES)?;
                let at = scratch.mount_point("bindfs")?;
                return Ok(Box::new(bindfs(&below, at)?));
            }
            PeerName::Tmpfs => scratch.tmpfs(name.as_str(), KERNEL_BYTES)?,
            PeerName::Ext4Ram => scratch.image_in_memory(Journalled::Ext4, name.as_str(), KERNEL_BYTES)?,
            PeerName::XfsRam => scratch.image_in_memory(Journalled::Xfs, name.as_str(), KERNEL_BYTES)?,
            PeerName::Ext4Disk | PeerName::EatMyData => {
                scratch.image_on_disk(Journalled::Ext4, name.as_str(), disk, DISK_BYTES)?
            }
            PeerName::XfsDisk => scratch.image_on_disk(Journalled::Xfs, name.as_str(), disk, DISK_BYTES)?,
        };
        Ok(Box::new(Kernel::new(name, at)))
    }

    fn cuesta(&mut self, name: PeerName, materials: &Materials) -> Result<Box<dyn Peer>, BenchError> {
        if !self.binary.is_file() {
            return Err(BenchError::Unusable(
                "no `cuesta` beside cuesta-bench; build it, or see --cuesta".into(),
            ));
        }
        let scratch = &mut self.scratch;
        let home = match name {
            PeerName::OnDisk | PeerName::MountDisk | PeerName::Optimistic => {
                scratch.image_on_disk(Journalled::Ext4, name.as_str(), &materials.disk_dir, DISK_BYTES)?
            }
            _ => scratch.tmpfs(name.as_str(), CUESTA_BYTES_MAX)?,
        };
        let (binary, own) = (self.binary.clone(), self.own_executable.clone());
        let place = if name == PeerName::Spill {
            let disk = scratch.image_on_disk(Journalled::Ext4, "below", &materials.disk_dir, DISK_BYTES)?;
            // A file system has a folder of its own in its root.
            let lower = Some((disk.join("tier"), LOWER_TIER.to_owned()));
            Place { home, nvm: SPILL_NVM.to_owned(), lower }
        } else {
            Place { home, nvm: materials.nvm.clone(), lower: None }
        };
        let cuesta = Cuesta::new(name, binary, own, place)?;
        Ok(match name {
            PeerName::Mount => Box::new(Mount::new(cuesta, scratch.mount_point("mounted")?)),
            PeerName::MountDisk => Box::new(Mount::on_disk(cuesta, scratch.mount_point("mounted-disk")?)),
            PeerName::OnMount => Box::new(Mount::for_run(cuesta, scratch.mount_point("mounted-for-run")?)),
            _ => Box::new(cuesta),
        })
    }
}

/// A quarter of the memory there is.
fn touched_bytes_max() -> u64 {
    let facts = rustix::system::sysinfo();
    facts.totalram * u64::from(facts.mem_unit) / 4
}
