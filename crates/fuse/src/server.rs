//! A mount that is served: an agreement with the kernel, and threads that keep it.

use crate::abi::{MAJOR, MINOR_LEAST};
use crate::device::Device;
use crate::door::Door;
use crate::handshake::{Agreed, shake_hands};
use crate::keeping::Keeping;
use crate::processors;
use crate::ring::Ring;
use crate::serves::Serves;
use crate::wakes::Wakes;
use crate::workers::Workers;
use cuesta_format::kernel_notice::NAMES_NOTICE_SINCE;
use cuesta_libfs::Client;
use rustix::io::Errno;
use std::io;
use std::sync::{Arc, mpsc};

/// Rings of a processor to begin with: one for who is served, one for who comes meanwhile.
const RINGS_FIRST: usize = 2;

/// With more of them threads would run short.
const PROCESSORS_MAX: u16 = 256;

/// How the kernel's requests come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// By rings if the kernel offers them, or else by the device.
    #[default]
    Best,
    /// By the device.
    Device,
}

/// Why a mount is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The kernel's first words make no sense.
    #[error("the kernel does not begin as it should")]
    Handshake,
    /// The kernel is too old.
    #[error("the kernel speaks FUSE {major}.{minor}; {MAJOR}.{MINOR_LEAST} is needed (Linux 5.4)")]
    Kernel {
        /// Its protocol's major version,
        major: u32,
        /// and minor.
        minor: u32,
    },
    /// The device cannot be read.
    #[error("cannot read /dev/fuse: {0}")]
    Device(Errno),
    /// SharedFS does not agree.
    #[error("{0}")]
    Session(cuesta_libfs::Error),
    /// There are no threads.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A mount that is served.
pub struct Server {
    workers: Arc<Workers>,
    is_by_rings: bool,
}

impl Server {
    /// Serves the mount behind `device` by the session of `client`.
    pub fn start(client: Arc<Client>, device: Device, transport: Transport) -> Result<Server, ServeError> {
        Server::start_with(device, transport, |device, minor| {
            let door_device = device.another().map_err(ServeError::Device)?;
            let keeping = what_is_kept(&client, device, minor)?;
            Ok(Box::new(Door::new(client, door_device, keeping)))
        })
    }

    /// Serves the mount behind `device` by what `serves` makes, once the kernel has begun: it is told the minor version of
    /// its protocol.
    pub fn start_with(
        device: Device,
        transport: Transport,
        serves: impl FnOnce(&Device, u32) -> Result<Box<dyn Serves>, ServeError>,
    ) -> Result<Server, ServeError> {
        let wakes = match transport {
            Transport::Best => Wakes::of(&device),
            Transport::Device => None,
        };
        let rings = || if wakes.is_some() { make_rings(&device) } else { Vec::new() };
        let Agreed { minor, rings } = shake_hands(&device, rings)?;
        tracing::debug!(minor, rings = rings.len(), "the kernel has begun");
        let serves = serves(&device, minor)?;
        let of_rings = rings.last().map(|last| last.processor() + 1).zip(wakes);
        let workers = Workers::start(serves, device, of_rings).map_err(ServeError::Thread)?;
        let is_by_rings = start_rings(&workers, rings)?;
        Ok(Server { workers, is_by_rings })
    }

    /// Whether requests come by rings.
    #[must_use]
    pub fn is_by_rings(&self) -> bool {
        self.is_by_rings
    }

    /// How many requests the kernel has made.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.workers.requests()
    }

    /// Waits until the mount is gone and nobody serves it any more.
    pub fn wait(&self) {
        self.workers.wait();
    }
}

/// Rings for every processor, in their order; or none, if that is not to be had.
fn make_rings(device: &Device) -> Vec<Ring> {
    let of_processor = |processor| {
        let count = if processors::runs(processor) { RINGS_FIRST } else { 1 };
        (0..count).map(move |_| Ring::new(device, processor))
    };
    let processors = processors::possible().filter(|&count| count <= PROCESSORS_MAX).unwrap_or(0);
    let made: io::Result<Vec<Ring>> = (0..processors).flat_map(of_processor).collect();
    made.unwrap_or_else(|error| {
        tracing::info!(%error, "the mount is served without rings");
        Vec::new()
    })
}

/// Has every ring registered. `false`: the kernel goes on without.
fn start_rings(workers: &Arc<Workers>, rings: Vec<Ring>) -> Result<bool, ServeError> {
    let (registered, results) = mpsc::channel();
    for ring in rings {
        workers.add_at_ring(ring, Some(registered.clone())).map_err(ServeError::Thread)?;
    }
    drop(registered);
    let mut is_by_rings = false;
    for result in results {
        match result {
            Ok(()) => is_by_rings = true,
            Err(error) => {
                // One of many that is refused has the kernel do without all of them.
                tracing::warn!(%error, "the kernel does not use rings");
                return Ok(false);
            }
        }
    }
    Ok(is_by_rings)
}

/// What the kernel may keep, once SharedFS can take it back.
fn what_is_kept(client: &Client, device: &Device, minor: u32) -> Result<Keeping, ServeError> {
    let names = minor >= NAMES_NOTICE_SINCE;
    let another = device.another().map_err(ServeError::Device)?;
    let term = client.keep_in_kernel(another.into_file(), names).map_err(ServeError::Session)?;
    Ok(Keeping::for_term(term, names))
}
