//! LibFS and SharedFS against the running kernel, called by several users: the same random calls by the same callers,
//! the same answers, the same tree. The reference model has root as its only caller, and does not know these:
//! rights, set-id bits, and which of several errors comes first.
//!
//! The kernel's side runs in a thread whose file system ids change from call to call. `CUESTA_SIM_SEED` repeats one
//! seed.

use cuesta_libfs::Credentials;
use cuesta_sim::generate::{Generator, Repertoire};
use cuesta_sim::operation::{Operation, Outcome, PathText, answers_agree};
use cuesta_sim::posix::Posix;
use cuesta_sim::random::Random;
use cuesta_sim::world::{self, World};
use rustix::io::Errno;
use std::os::unix::fs::PermissionsExt;

const OPERATIONS: usize = 500;
const STICKY: u32 = 0o1000;

fn users() -> [Credentials; 3] {
    [(0, vec![]), (1000, vec![]), (1001, vec![1000])].map(|(id, groups)| Credentials::of_user(id, id, groups))
}

/// The calling thread's calls on files are this user's.
fn act_as(user: &Credentials) {
    // SAFETY: the groups are valid for their number; only this thread's ids change, for libc is not asked.
    unsafe {
        assert_eq!(
            libc::syscall(libc::SYS_setgroups, user.groups.len(), user.groups.as_ptr()),
            0,
            "needs root"
        );
        libc::syscall(libc::SYS_setfsgid, user.gid);
        libc::syscall(libc::SYS_setfsuid, user.uid);
        assert_eq!(libc::syscall(libc::SYS_setfsuid, u32::MAX) as u32, user.uid, "needs root");
    }
}

/// Whether this kernel guards sticky directories in ways of its own.
fn sticky_is_special() -> bool {
    ["regular", "symlinks"].iter().any(|what| {
        std::fs::read_to_string(format!("/proc/sys/fs/protected_{what}")).is_ok_and(|text| text.trim() != "0")
    })
}

/// The caller: an open file belongs to its opener.
fn caller(operation: &Operation, random: &mut Random) -> usize {
    match operation.clone().slot_mut() {
        Some(slot) => usize::from(*slot) % users().len(),
        None => random.below(users().len() as u64) as usize,
    }
}

/// Modes that matter between users. Attributes only root sees are left out: a thread that is another user to the file
/// system alone stays root to them.
fn shape(operation: &mut Operation, random: &mut Random, sticky: bool) {
    use Operation::*;
    if let Open { mode, .. }
    | OpenUnnamed { mode, .. }
    | Mkdir { mode, .. }
    | Chmod { mode, .. }
    | Fchmod { mode, .. } = operation
    {
        if random.one_in(2) {
            *mode = *random.pick(&[0o777, 0o777, 0o1777, 0o2777, 0o666, 0o6777, 0o2767, 0o700, 0o611]);
        }
        if !sticky {
            *mode &= !STICKY;
        }
    }
    if let Some(name) = operation.attribute_mut().filter(|name| name.as_bytes().starts_with(b"trusted.")) {
        let behind = name.as_bytes().iter().skip(b"trusted.".len());
        *name = PathText(b"user.".iter().chain(behind).copied().collect());
    }
}

/// Whether Linux leaves the answer to `fs.protected_hardlinks`.
fn is_link_to_anothers(world: &mut World, operation: &Operation, user: &Credentials) -> bool {
    let look = match operation {
        Operation::Link { existing, .. } => Operation::Lstat { path: existing.clone() },
        Operation::LinkOpen { slot, .. } => Operation::Fstat { slot: *slot },
        _ => return false,
    };
    world.act_as(users()[0].clone());
    match world.apply(&look) {
        Ok(Outcome::Attributes(found)) => user.uid != 0 && found.uid != user.uid,
        _ => false,
    }
}

fn without_times(answer: Result<Outcome, Errno>) -> Result<Outcome, Errno> {
    answer.map(|outcome| match outcome {
        Outcome::Attributes(attributes) => {
            Outcome::Attributes(cuesta_sim::operation::Attributes { modified: None, ..attributes })
        }
        other => other,
    })
}

fn run_seed(seed: u64) -> Result<(), String> {
    let here = tempfile::tempdir().unwrap();
    std::fs::set_permissions(here.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut kernel = Posix::new(here.path().to_str().unwrap());
    let store = tempfile::tempdir_in("/dev/shm").unwrap();
    let geometry = cuesta_format::Geometry { nvm_bytes: 16 << 20, ..world::small_geometry() };
    world::create(store.path(), geometry)?;
    let mut world = World::open(store.path())?;
    let everybody = Operation::Chmod { path: "/.".into(), mode: 0o777 };
    world.apply(&everybody).map_err(|errno| errno.to_string())?;

    let users = users();
    let sticky = !sticky_is_special();
    let repertoire = Repertoire { slots: 6, climbing: false, ..Repertoire::default() };
    let mut generator = Generator::new(repertoire, seed);
    let mut random = Random::new(!seed);
    for step in 0..OPERATIONS {
        let mut operation = generator.next_operation();
        shape(&mut operation, &mut random, sticky);
        let user = &users[caller(&operation, &mut random)];
        if is_link_to_anothers(&mut world, &operation, user) {
            continue;
        }
        world.act_as(user.clone());
        let found = world.helped(|world| world.apply(&operation));
        act_as(user);
        let expected = without_times(kernel.apply(&operation));
        act_as(&users[0]);
        if !answers_agree(&found, &expected) {
            let tree = kernel.tree().map_err(|errno| errno.to_string())?;
            return Err(format!(
                "step {step}: {} {operation:?}: {found:?}, kernel {expected:?}\n{tree:?}",
                user.uid
            ));
        }
        if random.one_in(40) {
            world.digest()?;
        }
        if random.one_in(50) || step + 1 == OPERATIONS {
            world.act_as(users[0].clone());
            let expected = kernel.tree().map_err(|errno| format!("walk: {errno}"))?.without_times();
            let differences = world.tree()?.differences(&expected);
            if !differences.is_empty() {
                return Err(format!("after step {step}: {operation:?}: {}", differences.join("\n")));
            }
        }
    }
    world.detach();
    world::fsck(store.path())
}

#[test]
fn the_store_answers_several_users_as_the_kernel_does() {
    let seeds = match std::env::var("CUESTA_SIM_SEED") {
        Ok(seed) => seed.parse().unwrap()..=seed.parse().unwrap(),
        Err(_) => 0..=60u64,
    };
    let worker = std::thread::spawn(move || {
        // SAFETY: only this thread's umask and working directory become its own.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_FS) }, 0, "needs root");
        // SAFETY: umask cannot fail.
        unsafe { libc::umask(0) };
        for seed in seeds {
            if let Err(reason) = run_seed(seed) {
                panic!("seed {seed}: {reason}");
            }
        }
    });
    if let Err(panic) = worker.join() {
        std::panic::resume_unwind(panic);
    }
}
