//! The fate of a mount, and of the programs that use it, when the daemon or the mount's process ends.
//!
//! Needs root and FUSE; skipped visibly otherwise.

use crate::common::mounted::{Mounted, Running};
use crate::common::{Stopped, signal};
use cuesta_fuse::Life;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

#[test]
fn a_mount_outlives_its_daemon() {
    let Some(mounted) = Mounted::new() else { return };
    std::fs::write(mounted.path("file"), "before").unwrap();
    let mut file = File::options().append(true).open(mounted.path("file")).unwrap();
    let length = || std::fs::metadata(mounted.path("file")).unwrap().len();
    assert_eq!([length(), length()], [6, 6]);
    mounted.place.kill_daemon();
    // The next program starts another one, which the kernel has not heard of.
    assert_eq!(mounted.run("cat /cuesta/file; printf ' then' >> /cuesta/file"), "before");
    assert_eq!(length(), 11);
    file.write_all(b" after").unwrap();
    assert_eq!(std::fs::read_to_string(mounted.path("file")).unwrap(), "before then after");
    assert_eq!(mounted.place.cuesta(&["stop", "store"]).status(), 0);
    assert_eq!(mounted.run("cat /cuesta/file"), "before then after");
    assert_eq!(std::fs::read_to_string(mounted.path("file")).unwrap(), "before then after");
}

/// A number of the line that the kernel has of a process, behind its name.
fn of_process(pid: &str, field: usize) -> String {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    line.rsplit_once(')').unwrap().1.split_whitespace().nth(field).unwrap().to_owned()
}

fn parent(pid: &str) -> String {
    of_process(pid, 1)
}

/// A call by the mount whose daemon was killed used to wait for another process to start the next one, and then failed.
#[test]
fn a_call_by_a_mount_whose_daemon_is_gone_starts_the_next() {
    let Some(mounted) = Mounted::new() else { return };
    let process = mounted.process();
    std::fs::write(mounted.path("file"), "before").unwrap();
    let mut file = File::options().append(true).open(mounted.path("file")).unwrap();
    for round in 0..3 {
        let killed = mounted.place.daemon();
        signal(&killed, "KILL");
        std::fs::write(mounted.path(&round.to_string()), "written").unwrap();
        file.write_all(b" after").unwrap();
        mounted.ask_daemon();
        let next = mounted.place.daemon();
        assert!(next != killed && parent(&next) == process, "{killed}, then {next} by {process}");
        assert_eq!(mounted.run(&format!("cat /cuesta/{round}")), "written");
        if round > 0 {
            // The mount was its parent, and does not leave it behind.
            while std::fs::exists(format!("/proc/{killed}")).unwrap() {
                std::thread::yield_now();
            }
        }
    }
    assert_eq!(mounted.run("cat /cuesta/file"), "before after after after");
    assert_eq!(mounted.process(), process, "by the name it had");
    // An upgrade: the program is another file by now.
    let (program, copy) = (mounted.place.path("bin/cuesta"), mounted.place.path("bin/copy"));
    assert!(Command::new("cp").arg(&program).arg(&copy).status().unwrap().success());
    std::fs::rename(&copy, &program).unwrap();
    mounted.place.kill_daemon();
    mounted.ask_daemon();
    let next = mounted.place.daemon();
    let runs = std::fs::read_link(format!("/proc/{next}/exe")).unwrap();
    assert_eq!(parent(&next), process);
    assert!(runs.to_str().unwrap().ends_with("bin/cuesta (deleted)"), "{}", runs.display());
}

#[test]
fn a_mount_that_is_told_so_leaves_the_next_daemon_to_others() {
    let Some(mounted) = Mounted::new() else { return };
    mounted.unmount();
    mounted.mount_with("nostart");
    let process = mounted.process();
    mounted.place.kill_daemon();
    let path = mounted.path("");
    let asking = std::thread::spawn(move || rustix::fs::statvfs(path).unwrap());
    assert_eq!(mounted.run("echo here"), "here\n");
    asking.join().unwrap();
    assert_ne!(parent(&mounted.place.daemon()), process);
}

#[test]
fn why_no_daemon_can_be_started_is_said_once_and_calls_go_on_as_soon_as_it_can() {
    let Some(mounted) = Mounted::new() else { return };
    let configuration = mounted.place.path("store/cuesta.toml");
    let sound = std::fs::read(&configuration).unwrap();
    let process = mounted.process();
    std::fs::write(&configuration, "nonsense").unwrap();
    mounted.place.kill_daemon();
    let path = mounted.path("");
    let asking = std::thread::spawn(move || rustix::fs::statvfs(path).unwrap());
    let said = || {
        let log = std::fs::read_to_string(mounted.place.path("store/sharedfs.log")).unwrap();
        log.lines().filter(|line| line.contains("cannot start")).map(str::to_owned).collect::<Vec<_>>()
    };
    while said().is_empty() {
        std::thread::yield_now();
    }
    assert!(said()[0].contains("cuesta.toml"), "{:?}", said());
    std::fs::write(&configuration, sound).unwrap();
    asking.join().unwrap();
    assert_eq!((said().len(), parent(&mounted.place.daemon())), (1, process));
}

#[test]
fn what_was_written_survives_the_mount_s_process() {
    let Some(mounted) = Mounted::new() else { return };
    std::fs::write(mounted.path("file"), "content").unwrap();
    let held = File::open(mounted.path("file")).unwrap();
    signal(&mounted.process(), "KILL");
    // A program in the middle of it is told, and does not wait for ever.
    let mut byte = [0; 1];
    while std::fs::metadata(mounted.path("file")).is_ok() {}
    assert!((&held).read(&mut byte).is_err() || byte == *b"c");
    // The dead mount makes room for the next.
    mounted.mount();
    assert_eq!(std::fs::read_to_string(mounted.path("file")).unwrap(), "content");
}

/// The system calls that a process's threads are in.
fn calls_under_way(pid: u32) -> Vec<libc::c_long> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    threads.filter_map(|thread| call_under_way(&thread.ok()?.path())).collect()
}

fn call_under_way(task: &Path) -> Option<libc::c_long> {
    std::fs::read_to_string(task.join("syscall")).ok()?.split(' ').next()?.parse().ok()
}

/// A thread that makes a system call by a mount, and waits in it.
struct Waiting {
    call: libc::c_long,
    task: PathBuf,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Waiting {
    fn new(call: libc::c_long, make: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> Waiting {
        let (tells, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tells.send(rustix::thread::gettid()).unwrap();
            make()
        });
        let task = format!("/proc/self/task/{}", told.recv().unwrap().as_raw_nonzero());
        Waiting { call, task: task.into(), thread }
    }

    /// Returns once it is in the call, which must not return.
    fn wait_in_call(&self) {
        while call_under_way(&self.task) != Some(self.call) {
            assert!(!self.thread.is_finished(), "system call {} returned", self.call);
            std::thread::yield_now();
        }
    }

    fn outcome(self) -> std::io::Result<()> {
        self.thread.join().unwrap()
    }
}

/// `cuesta mount` took one for alive whose process had just been killed: the kernel still answered what it knew.
#[test]
fn a_mount_whose_process_was_just_killed_makes_room_for_the_next() {
    let Some(mounted) = Mounted::new() else { return };
    std::fs::write(mounted.path("file"), "content").unwrap();
    for elsewhere in [false, true, false] {
        let (daemon, process) = (mounted.place.daemon(), mounted.process());
        std::fs::metadata(mounted.path("")).unwrap();
        // The daemon, which is busy, still has a descriptor of the mount.
        let stopped = Stopped::new(&daemon);
        let path = mounted.path("");
        let waits = Waiting::new(libc::SYS_statfs, move || Ok(rustix::fs::statvfs(&path).map(drop)?));
        waits.wait_in_call();
        signal(&process, "KILL");
        std::fs::create_dir_all(mounted.place.path("elsewhere")).unwrap();
        let place = if elsewhere { "elsewhere" } else { "files" };
        let mut mount = mounted.place.command(&["mount", "--allow-other", "store", place]);
        let mount = mount.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut mount = Running(mount);
        while mount.0.try_wait().unwrap().is_none()
            && !calls_under_way(mount.0.id()).contains(&libc::SYS_fstatfs)
        {
            std::thread::yield_now();
        }
        drop(stopped);
        let mut errors = String::new();
        mount.0.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!((mount.0.wait().unwrap().code(), errors), (Some(0), String::new()));
        assert!(waits.outcome().is_err(), "who waited for the dead one");
        let file = mounted.place.path(place).join("file");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "content");
        let found = cuesta_fuse::mounts().unwrap();
        let here = mounted.place.path("").canonicalize().unwrap();
        let places: Vec<_> = found.iter().filter_map(|mounted| mounted.at.strip_prefix(&here).ok()).collect();
        assert_eq!(places, [Path::new(place)], "nothing is left of the dead one");
        if elsewhere {
            assert_eq!(mounted.place.cuesta(&["unmount", "elsewhere"]).errors(), "");
            mounted.mount();
        }
    }
}

/// Each of these needs the daemon, which stands still and then dies under it, or a lock that another process has.
#[test]
fn calls_by_a_mount_that_wait_when_the_daemon_is_killed_go_on_with_the_next() {
    let Some(mounted) = Mounted::new() else { return };
    for name in ["locked", "leased", "large"] {
        std::fs::write(mounted.path(name), name).unwrap();
    }
    let script = "exec 8>>/cuesta/leased 9</cuesta/locked; flock 9; mkdir /cuesta/folder; echo ready; read line; \
                  printf ' by another' >&8; touch /cuesta/folder/file; echo done; read line; flock --unlock 9; read line";
    let mut holder =
        mounted.place.command(&["run", "--store", "store", "--at", "/cuesta", "--", "bash", "-ec", script]);
    let mut holder = Running(holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let (mut tells, mut says) =
        (holder.0.stdin.take().unwrap(), BufReader::new(holder.0.stdout.take().unwrap()));
    let mut hears = |word: &str| {
        let mut line = String::new();
        says.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), word);
    };
    hears("ready");
    let open = |name: &str| File::options().read(true).write(true).open(mounted.path(name)).unwrap();
    let [locked, again, mut leased, large] = ["locked", "locked", "leased", "large"].map(open);
    // The mount's copies of these are none any more.
    tells.write_all(b"write\n").unwrap();
    hears("done");
    let daemon = mounted.place.daemon();
    let stopped = Stopped::new(&daemon);
    let (root, made) = (mounted.path(""), mounted.path("folder/made"));
    let chunk = vec![b'x'; 1 << 20];
    let waiting = [
        Waiting::new(libc::SYS_statfs, move || Ok(rustix::fs::statvfs(&root).map(drop)?)),
        Waiting::new(libc::SYS_read, move || leased.read_exact(&mut [0; 17])),
        Waiting::new(libc::SYS_mkdir, move || std::fs::create_dir(&made)),
        // More than any log has room for.
        Waiting::new(libc::SYS_pwrite64, move || (0..40).try_for_each(|_| large.write_all_at(&chunk, 0))),
    ];
    let lock = Waiting::new(libc::SYS_flock, move || locked.lock());
    waiting.iter().chain([&lock]).for_each(Waiting::wait_in_call);
    signal(&daemon, "KILL");
    for waiting in waiting {
        let call = waiting.call;
        let outcome = waiting.outcome();
        assert!(outcome.is_ok(), "system call {call}: {outcome:?}");
    }
    assert!(!lock.thread.is_finished() && again.try_lock().is_err(), "locks do not go with the daemon");
    tells.write_all(b"unlock\n").unwrap();
    lock.outcome().unwrap();
    drop(stopped);
    assert_ne!(mounted.place.daemon(), daemon);
    assert_eq!(std::fs::read_to_string(mounted.path("leased")).unwrap(), "leased by another");
    assert_eq!(mounted.run("stat -c %s /cuesta/large; ls /cuesta/folder"), "1048576\nfile\nmade\n");
}

#[test]
fn a_store_that_is_locked_and_not_served_is_not_mounted() {
    let Some(mounted) = Mounted::new() else { return };
    mounted.unmount();
    assert_eq!(mounted.place.cuesta(&["stop", "store"]).status(), 0);
    // As cuesta fsck has it.
    let lock = File::options().read(true).write(true).open(mounted.place.path("store/lock")).unwrap();
    lock.lock().unwrap();
    let refused = mounted.place.cuesta(&["mount", "store", "files"]);
    refused.refused(1, &["store", "in use by process"]);
}

/// A program that has pages of itself by way of a mount comes to wait for itself if it is what the mount waits for.
#[test]
fn a_command_that_lies_on_a_mount_does_not_serve_by_it() {
    let Some(mounted) = Mounted::of_size("128M") else { return };
    let place = &mounted.place;
    mounted.run(&format!("cp {}/* /cuesta/", place.path("bin").display()));
    mounted.unmount();
    // Where the command and the mount's own program lie, there lies the store from now on.
    assert_eq!(place.cuesta(&["mount", "--nonempty", "store", "bin"]).errors(), "");
    let process = mounted.process();
    for round in ["one", "two"] {
        place.kill_daemon();
        rustix::fs::statvfs(place.path("bin")).unwrap();
        assert_eq!(parent(&place.daemon()), process, "round {round}");
        place.kill_daemon();
        assert_eq!(
            mounted.run(&format!("echo {round} > /cuesta/{round}; cat /cuesta/{round}")),
            format!("{round}\n")
        );
        assert_eq!(std::fs::read_to_string(place.path("bin").join(round)).unwrap(), format!("{round}\n"));
    }
    // The other mount goes on without the mount that its program came from.
    std::fs::create_dir(place.path("others")).unwrap();
    assert_eq!(place.cuesta(&["mkfs", "other", "--medium", "memory", "--nvm", "8M"]).status(), 0);
    assert_eq!(place.cuesta(&["mount", "other", "others"]).errors(), "");
    for program in ["bin", "others"] {
        std::fs::write(place.path(program).join("kept"), program).unwrap();
    }
    // The command itself is in use there while it runs, and for a moment longer.
    while let Err(error) = cuesta_fuse::unmount(&place.path("bin"), false) {
        assert!(matches!(error, cuesta_fuse::MountError::InUse), "{error}");
    }
    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
    assert_eq!(std::fs::read_to_string(place.path("others/kept")).unwrap(), "others");
    assert_eq!(place.cuesta(&["unmount", "others"]).errors(), "");
    assert_eq!(place.cuesta(&["stop", "other"]).errors(), "");
}

/// Of two `cuesta mount` at once one took the other's mount for the dead one that both had seen.
#[test]
fn a_finder_of_a_dead_mount_leaves_the_next_one_there_alone() {
    let Some(mounted) = Mounted::new() else { return };
    std::fs::write(mounted.path("file"), "content").unwrap();
    let at = mounted.path("").canonicalize().unwrap();
    signal(&mounted.process(), "KILL");
    let listed = cuesta_fuse::mounts().unwrap().into_iter().find(|mounted| mounted.at == at).unwrap();
    let Life::Dead(remains) = cuesta_fuse::life(&listed) else { panic!("it is dead") };
    mounted.mount();
    assert!(matches!(cuesta_fuse::life(&listed), Life::Gone));
    remains.take_away().unwrap();
    assert_eq!(std::fs::read_to_string(mounted.path("file")).unwrap(), "content");
    assert!(cuesta_fuse::mounts().unwrap().iter().any(|mounted| mounted.at == at), "the next is there");
}

#[test]
fn what_is_left_of_a_mount_out_of_reach_hinders_no_other() {
    let Some(mounted) = Mounted::new() else { return };
    let place = &mounted.place;
    std::fs::write(mounted.path("file"), "content").unwrap();
    mounted.unmount();
    std::fs::create_dir_all(place.path("above/below")).unwrap();
    assert_eq!(place.cuesta(&["mount", "store", "above/below"]).errors(), "");
    signal(&mounted.process(), "KILL");
    // The files at its path from now on are none of it.
    let above = place.path("above");
    let cover = |program: &str, arguments: &[&str]| {
        assert!(Command::new(program).args(arguments).arg(&above).status().unwrap().success());
    };
    cover("mount", &["-t", "tmpfs", "none"]);
    let made = place.cuesta(&["mount", "store", "files"]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    assert!(made.errors().contains("above/below: what is left of a mount there stays"), "{}", made.errors());
    assert_eq!(std::fs::read_to_string(mounted.path("file")).unwrap(), "content");
    cover("umount", &[]);
}

/// Where an administrator wants it said of memory that it is to be executed, the copy could not be; where he wants none
/// executed there is no copy.
#[test]
fn a_command_that_lies_on_a_mount_serves_other_stores_whatever_memory_may_be_executed() {
    let Some(mounted) = Mounted::of_size("128M") else { return };
    let place = &mounted.place;
    if !std::fs::exists("/proc/sys/vm/memfd_noexec").unwrap() {
        println!("skipped: this kernel executes any memory");
        return;
    }
    mounted.run(&format!("mkdir /cuesta/bin; cp {}/* /cuesta/bin/", place.path("bin").display()));
    for (forbids, runs, says) in [(1, "/memfd:cuesta (deleted)", false), (2, "files/bin/cuesta", true)] {
        assert_eq!(place.cuesta(&["mkfs", "other", "--medium", "memory", "--nvm", "8M"]).status(), 0);
        // The setting is one of those processes only.
        let script = format!(
            "echo {forbids} > /proc/sys/vm/memfd_noexec
            files/bin/cuesta serve other 2> said & serves=$!
            while ! bin/cuesta status other > /dev/null 2>&1; do kill -0 $serves; done
            readlink /proc/$serves/exe; bin/cuesta stop other > /dev/null; wait $serves"
        );
        let ended = Command::new("unshare")
            .args(["--pid", "--fork", "--mount-proc", "sh", "-ec", &script])
            .current_dir(place.path(""))
            .output()
            .unwrap();
        let said = std::fs::read_to_string(place.path("said")).unwrap();
        let ran = String::from_utf8(ended.stdout).unwrap();
        assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
        assert!(ran.trim_end().ends_with(runs), "{forbids}: {ran}");
        assert_eq!(said.contains("cannot be copied into memory"), says, "{forbids}: {said}");
        std::fs::remove_dir_all(place.path("other")).unwrap();
    }
}
