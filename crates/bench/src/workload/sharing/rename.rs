//! A rename that SharedFS performs, for a process of another user: the cost of the way there and back, while the other
//! processor has nothing to do and while it is busy.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{BenchError, Context};
use crate::figures::measure::{Budget, Figure, Outcome, timed};
use crate::workload::pieces::members;

/// User 65534, the user without files, which owns no store.
const OTHER_USER: libc::uid_t = 65534;
/// Renames before anything is measured: the client has a ring by then, and the server has found its processor.
const WARM_UP: u64 = 2000;
/// The other processor is busy for so much longer than is measured.
const BUSY_BEYOND: Duration = Duration::from_millis(50);

/// One process that renames a file to and fro.
#[derive(Clone, Copy, Debug)]
pub struct ServedRename;

impl ServedRename {
    /// Measures in `dir`, as root on two processors.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let (first, second) = two_processors()?;
        let everyone = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(dir, everyone).context("letting another user into the directory")?;
        let mut outcome = Outcome::default();
        for (is_busy, figure) in [(false, Figure::RenameBesideIdle), (true, Figure::RenameBesideBusy)] {
            let outcomes = members::run(1 + u32::from(is_busy), |member| {
                if member.number == 1 {
                    pin(second)?;
                    member.wait_for_all()?;
                    spin(time + BUSY_BEYOND);
                    return Ok(Outcome::default());
                }
                pin(first)?;
                become_other_user()?;
                let names = [dir.join("one"), dir.join("other")];
                std::fs::write(&names[0], "moved").context("making a file as another user")?;
                let mut turn = 0;
                let mut rename = |_| {
                    turn ^= 1;
                    std::fs::rename(&names[turn ^ 1], &names[turn]).context("rename as another user")
                };
                timed(Budget { time: Duration::MAX, operations: WARM_UP }, &mut rename)?;
                member.wait_for_all()?;
                let renames = timed(Budget { time, operations: u64::MAX }, &mut rename)?;
                std::fs::remove_file(&names[turn]).context("removing the file")?;
                Ok(Outcome::of(figure, renames.latency.value_at_quantile(0.5) as f64 / 1e3))
            })?;
            outcome = outcome.with(figure, outcomes[0].figures[&figure]);
        }
        Ok(outcome)
    }
}

fn two_processors() -> Result<(usize, usize), BenchError> {
    let allowed = sched_getaffinity(None).context("reading the CPU mask")?;
    let mut all = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    all.next().zip(all.next()).ok_or_else(|| BenchError::Unusable("needs two processors".into()))
}

fn pin(cpu: usize) -> Result<(), BenchError> {
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one).context("pinning")
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Gives up being root, for good. By libc's functions, as programs do.
fn become_other_user() -> Result<(), BenchError> {
    // SAFETY: no groups are read from the null pointer, as there are none.
    let done = unsafe { libc::setgroups(0, std::ptr::null()) } == 0
        // SAFETY: plain numbers.
        && unsafe { libc::setresgid(OTHER_USER, OTHER_USER, OTHER_USER) } == 0
        // SAFETY: as above.
        && unsafe { libc::setresuid(OTHER_USER, OTHER_USER, OTHER_USER) } == 0;
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()).context("becoming another user") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_are_measured_as_another_user() {
        if !rustix::process::geteuid().is_root() || two_processors().is_err() {
            println!("skipped: needs root and two processors");
            return;
        }
        let dir = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
        let outcome = ServedRename.run(dir.path(), Duration::from_millis(10)).unwrap();
        assert!(outcome.figures[&Figure::RenameBesideIdle] > 0.0);
        assert!(outcome.figures[&Figure::RenameBesideBusy] > 0.0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
