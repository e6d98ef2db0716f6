//! Being told to end (SIGINT, SIGTERM, SIGHUP): nothing that was started is left behind, nor the store.
//!
//! A soak waits for processes most of the time, all of them its own or its descendants', which become its children when
//! their parent ends. So they are killed, again and again, by a thread of its own: every awaited process comes to an
//! end, and calls that began meanwhile fail. Then the soak ends as ever.

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const KILL_EVERY: Duration = Duration::from_millis(5);

/// Listens for these signals.
pub struct Interruption {
    came: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    killer: Option<JoinHandle<()>>,
}

impl Interruption {
    /// Takes the signals from now on. Started programs get them as ever.
    pub fn listen() -> io::Result<Interruption> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let (came, is_over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let killer = std::thread::Builder::new().name("interruption".into()).spawn({
            let (came, is_over) = (Arc::clone(&came), Arc::clone(&is_over));
            move || {
                if signals.forever().next().is_none() {
                    return;
                }
                came.store(true, Ordering::Release);
                while !is_over.load(Ordering::Acquire) {
                    kill_descendants();
                    std::thread::sleep(KILL_EVERY);
                }
            }
        })?;
        Ok(Interruption { came, is_over, killer: Some(killer) })
    }

    /// Whether one came: everything is being killed.
    #[must_use]
    pub fn came(&self) -> bool {
        self.came.load(Ordering::Acquire)
    }

    /// Nothing begins any more. Returns when nothing is left that began, if a signal came.
    pub fn end(mut self) {
        self.is_over.store(true, Ordering::Release);
        if !self.came() {
            return;
        }
        if let Some(killer) = self.killer.take() {
            // One that panicked has killed what it could.
            let _ = killer.join();
        }
        while kill_descendants() {
            std::thread::sleep(KILL_EVERY);
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        }
    }
}

/// Kills every process that descends from this one. Says whether there was any.
fn kill_descendants() -> bool {
    let parents: HashMap<Pid, Pid> = processes().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let own = getpid();
    let descends = |&pid: &Pid| {
        // A chain that changes while it is looked at may seem to be a circle.
        let chain = std::iter::successors(Some(pid), |pid| parents.get(pid).copied());
        chain.skip(1).take(parents.len()).any(|ancestor| ancestor == own)
    };
    let found: Vec<Pid> = parents.keys().filter(|pid| descends(pid)).copied().collect();
    for &pid in &found {
        // A process that is gone by now needs no signal.
        let _ = kill_process(pid, Signal::KILL);
    }
    !found.is_empty()
}

fn processes() -> impl Iterator<Item = Pid> {
    let names = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    names.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    // The name before it may hold anything.
    let behind_name = stat.rsplit_once(") ")?.1;
    Pid::from_raw(behind_name.split(' ').nth(1)?.parse().ok()?)
}
