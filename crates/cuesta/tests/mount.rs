//! `cuesta mount` as a user meets it: both doors side by side, what survives whose death, and what is refused, in one line.
//!
//! Needs root and FUSE; skipped visibly otherwise.

use crate::common::mounted::{Mounted, Running};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};

#[test]
fn both_doors_lead_to_the_same_files() {
    let Some(mounted) = Mounted::new() else { return };
    mounted.run("echo one > /cuesta/file; mkdir /cuesta/folder; ln -s file /cuesta/link");
    assert_eq!(std::fs::read_to_string(mounted.path("link")).unwrap(), "one\n");
    let mut file = File::options().append(true).open(mounted.path("file")).unwrap();
    file.write_all(b"two\n").unwrap();
    mounted.run("test \"$(cat /cuesta/file)\" = \"one\ntwo\"; echo three >> /cuesta/file; mv /cuesta/file /cuesta/folder/");
    file.write_all(b"four\n").unwrap();
    assert_eq!(std::fs::read_to_string(mounted.path("folder/file")).unwrap(), "one\ntwo\nthree\nfour\n");
    assert_eq!(std::fs::metadata(mounted.path("file")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    std::fs::set_permissions(mounted.path("folder"), std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(mounted.run("stat -c %a /cuesta/folder"), "700\n");
}

#[test]
fn programs_are_accelerated_where_the_store_is_mounted() {
    let Some(mounted) = Mounted::new() else { return };
    std::fs::create_dir(mounted.path("folder")).unwrap();
    std::fs::copy("/bin/cat", mounted.path("folder/program")).unwrap();
    let run = |folder: &str, command: &[&str]| {
        let mut arguments = vec!["run", "--store", "../store", "--"];
        if folder.ends_with("folder") {
            arguments[2] = "../../store";
        }
        arguments.extend(command);
        let ended = mounted.place.command(&arguments).current_dir(mounted.path(folder)).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).unwrap()
    };
    // By the path of the mount, and in the folder this process is in.
    let name = mounted.path("by-name").to_str().unwrap().to_owned();
    run("", &["sh", "-c", "echo one > \"$0\"; echo two > beside", &name]);
    assert_eq!(std::fs::read_to_string(mounted.path("by-name")).unwrap(), "one\n");
    assert_eq!(std::fs::read_to_string(mounted.path("beside")).unwrap(), "two\n");
    assert_eq!(run("folder", &["./program", "../beside"]), "two\n");
    assert_eq!(run("folder", &["pwd"]), format!("{}\n", mounted.path("folder").display()));
    // The kernel never hears of its calls there.
    let before = mounted.of_session("operations");
    run(
        "",
        &["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo $i > folder/$i; mv folder/$i folder/n$i; done"],
    );
    let asked = mounted.of_session("operations") - before;
    assert!(asked < 12, "{asked} operations by the mount");
}

#[test]
fn a_line_of_fstab_mounts_it() {
    let Some(mounted) = Mounted::new() else { return };
    let place = &mounted.place;
    std::fs::write(mounted.path("file"), "content").unwrap();
    mounted.unmount();
    // As mount(8) starts its helper.
    std::os::unix::fs::symlink("cuesta", place.path("bin/mount.fuse.cuesta")).unwrap();
    let (store, files) = (place.path("store"), place.path("files"));
    let mut helper = Command::new(place.path("bin/mount.fuse.cuesta"));
    helper.arg(store).arg(files).args(["-n", "-o", "ro,noexec,nofail,x-systemd.requires=network.target"]);
    assert!(helper.status().unwrap().success());
    assert_eq!(std::fs::read_to_string(mounted.path("file")).unwrap(), "content");
    assert_eq!(std::fs::write(mounted.path("file"), "").unwrap_err().raw_os_error(), Some(libc::EROFS));
}

#[test]
fn a_file_that_is_open_outlives_its_name_by_either_door() {
    let Some(mounted) = Mounted::new() else { return };
    std::fs::write(mounted.path("file"), "content").unwrap();
    let mut file = File::open(mounted.path("file")).unwrap();
    mounted.run("rm /cuesta/file");
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), file.metadata().unwrap().nlink()), ("content", 0));
}

#[test]
fn locks_are_the_same_by_both_doors() {
    let Some(mounted) = Mounted::new() else { return };
    std::fs::write(mounted.path("file"), "").unwrap();
    let file = File::open(mounted.path("file")).unwrap();
    let try_lock = "flock --nonblock /cuesta/file true && echo free || echo taken";
    file.lock().unwrap();
    assert_eq!(mounted.run(try_lock), "taken\n");
    file.unlock().unwrap();
    assert_eq!(mounted.run(try_lock), "free\n");
    // The other way round, and one that waits.
    let holder = "exec 9</cuesta/file; flock 9; echo held; read line";
    let mut command =
        mounted.place.command(&["run", "--store", "store", "--at", "/cuesta", "--", "sh", "-c", holder]);
    let mut holder = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(holder.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "held\n");
    assert!(file.try_lock().is_err());
    let waiting = std::thread::spawn(move || file.lock().unwrap());
    holder.0.stdin.take().unwrap().write_all(b"enough\n").unwrap();
    waiting.join().unwrap();
}

#[test]
fn a_lock_of_an_open_file_description_goes_with_it() {
    let Some(mounted) = Mounted::new() else { return };
    let path = mounted.path("file");
    std::fs::write(&path, "").unwrap();
    let lock = |file: &File| {
        let wanted = libc::flock {
            l_type: libc::F_WRLCK as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        // SAFETY: the descriptor is open, and the kernel reads the one structure it is given.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const wanted) == 0 }
    };
    let open = || File::options().read(true).write(true).open(&path).unwrap();
    let (first, second) = (open(), open());
    assert!(lock(&first) && !lock(&second));
    drop(first);
    // Closing tells the door in its own time.
    while !lock(&second) {
        std::thread::yield_now();
    }
}

#[test]
fn a_waiter_for_a_lock_can_be_killed() {
    let Some(mounted) = Mounted::new() else { return };
    std::fs::write(mounted.path("file"), "").unwrap();
    let file = File::open(mounted.path("file")).unwrap();
    file.lock().unwrap();
    let script = "exec 9<\"$0\"; echo opened; exec flock 9";
    let mut waiting = Running(
        Command::new("sh")
            .args(["-c", script])
            .arg(mounted.path("file"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut said = String::new();
    BufReader::new(waiting.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    waiting.0.kill().unwrap();
    assert!(!waiting.0.wait().unwrap().success());
}

#[test]
fn other_users_have_their_own_permissions() {
    let Some(mounted) = Mounted::new() else { return };
    for (name, mode) in [("open", 0o644), ("closed", 0o600)] {
        std::fs::write(mounted.path(name), name).unwrap();
        std::fs::set_permissions(mounted.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    std::fs::set_permissions(mounted.place.path(""), std::fs::Permissions::from_mode(0o711)).unwrap();
    std::fs::set_permissions(mounted.path(""), std::fs::Permissions::from_mode(0o777)).unwrap();
    let as_nobody = |script: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", script]);
        command.current_dir(mounted.path("")).output().unwrap()
    };
    assert_eq!(as_nobody("cat open; echo mine > mine").stdout, b"open");
    assert!(!as_nobody("cat closed").status.success());
    assert!(!as_nobody("echo no > open").status.success());
    assert_eq!(std::fs::metadata(mounted.path("mine")).unwrap().uid(), 65534);
    assert_eq!(mounted.run("stat -c %u /cuesta/mine"), "65534\n");
}

#[test]
fn wrong_places_are_refused_in_one_line() {
    let Some(mounted) = Mounted::new() else { return };
    let place = &mounted.place;
    let cuesta = |arguments: &[&str]| place.cuesta(arguments);
    cuesta(&["mount", "store", "none"]).refused(1, &["none", "No such file or directory"]);
    cuesta(&["mount", "bin", "files"]).refused(1, &["bin", "no Cuesta store"]);
    cuesta(&["mount", "store", "bin"]).refused(1, &["bin", "not empty", "--nonempty"]);
    cuesta(&["mount", "store", "bin/cuesta"]).refused(1, &["bin/cuesta", "not a directory"]);
    cuesta(&["mount", "-o", "ro,sometimes", "store", "files"]).refused(2, &["sometimes", "no such option"]);
    cuesta(&["mount", "store", "files"]).refused(1, &["files", "mounted there already"]);
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    cuesta(&["mount", "store", "elsewhere"]).refused(1, &["store", "mounted at", "files already"]);
    cuesta(&["unmount", "elsewhere"]).refused(1, &["elsewhere", "no store is mounted there"]);
    let busy = File::create(mounted.path("busy")).unwrap();
    cuesta(&["unmount", "files"]).refused(1, &["files", "in use"]);
    drop(busy);
    mounted.unmount();
    assert_eq!(std::fs::read_dir(place.path("files")).unwrap().count(), 0);
}

#[test]
fn a_full_store_says_so_and_keeps_what_it_has() {
    let Some(mounted) = Mounted::new() else { return };
    std::fs::write(mounted.path("kept"), "kept").unwrap();
    let mut file = File::create(mounted.path("large")).unwrap();
    let chunk = vec![7; 1 << 20];
    let failed = (0..64).find_map(|_| file.write_all(&chunk).err());
    assert_eq!(failed.map(|error| error.raw_os_error()), Some(Some(28)), "no space left");
    assert_eq!(std::fs::read_to_string(mounted.path("kept")).unwrap(), "kept");
    drop(file);
    std::fs::remove_file(mounted.path("large")).unwrap();
    std::fs::write(mounted.path("small"), "room again").unwrap();
    assert_eq!(mounted.run("cat /cuesta/kept /cuesta/small"), "keptroom again");
}

#[test]
fn a_program_that_cannot_be_accelerated_runs_by_the_mount_and_is_named() {
    let Some(mounted) = Mounted::new() else { return };
    std::fs::write(
        mounted.place.path("alone.c"),
        "#include <stdio.h>\nint main() { return puts(\"ran\") < 0; }",
    )
    .unwrap();
    let program = mounted.path("alone");
    let mut compiler = Command::new("gcc");
    compiler.args(["-static", "-o"]).arg(&program).arg(mounted.place.path("alone.c"));
    assert!(compiler.status().unwrap().success());
    let name = program.to_str().unwrap();
    let script = format!("{name} > {0}/said; echo on >> {0}/said", mounted.place.path("files").display());
    let told = mounted.place.cuesta(&["doctor", "--store", "store", "--", "sh", "-ec", &script]);
    assert_eq!(told.status(), 0, "{}", told.errors());
    assert_eq!(std::fs::read_to_string(mounted.path("said")).unwrap(), "ran\non\n");
    let verdict = format!("{name} could not be (statically linked), and finds the store by the mount.");
    assert!(told.errors().contains(&verdict), "{}", told.errors());
    // By itself, too, wherever it lies.
    for program in [name.to_owned(), format!("{}/alone", mounted.place.path("").display())] {
        if program != name {
            // By another process: a child of another test may also have the files that are open for writing here.
            assert!(Command::new("cp").args([name, &program]).status().unwrap().success());
        }
        let ended = mounted.place.cuesta(&["run", "--store", "store", "--", &program]);
        assert_eq!((ended.status(), ended.text()), (0, "ran\n".into()), "{}", ended.errors());
    }
    // Elsewhere than at the mount it would find nothing.
    let outside = format!("{}/alone", mounted.place.path("").display());
    let ended = mounted.place.cuesta(&["run", "--store", "store", "--at", "/elsewhere", "--", &outside]);
    assert_eq!(ended.status(), 126, "{}", ended.errors());
}

#[test]
fn a_file_reaches_as_far_as_offsets_do() {
    let Some(mounted) = Mounted::new() else { return };
    let file = File::options().create_new(true).read(true).write(true).open(mounted.path("sparse")).unwrap();
    let far = cuesta_format::FILE_BYTES_MAX - 4;
    file.write_all_at(b"near", 10).unwrap();
    file.write_all_at(b"far!", far).unwrap();
    assert_eq!(file.metadata().unwrap().len(), cuesta_format::FILE_BYTES_MAX);
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, far - 4).unwrap();
    assert_eq!(&bytes, b"\0\0\0\0far!");
    let seek = |from: u64, data: bool| {
        let whence = if data { rustix::fs::SeekFrom::Data(from) } else { rustix::fs::SeekFrom::Hole(from) };
        rustix::fs::seek(&file, whence).unwrap()
    };
    assert_eq!((seek(4096, true), seek(0, false), seek(far, false)), (far / 4096 * 4096, 4096, far + 4));
    let beyond = file.write_at(b"x", cuesta_format::FILE_BYTES_MAX).unwrap_err();
    assert_eq!(beyond.raw_os_error(), Some(libc::EFBIG));
    // The other door sees the same, and changes it.
    let script = "import os; f = os.open('/cuesta/sparse', os.O_RDWR); n = os.fstat(f).st_size; \
                  print(n, os.pread(f, 9, n - 4), os.lseek(f, 4096, os.SEEK_DATA)); os.pwrite(f, b'here', n - 8)";
    let told = mounted.run(&format!("python3 -c \"{script}\""));
    assert_eq!(told, format!("{} b'far!' {}\n", cuesta_format::FILE_BYTES_MAX, far / 4096 * 4096));
    file.read_exact_at(&mut bytes, far - 4).unwrap();
    assert_eq!(&bytes, b"herefar!");
    file.set_len(3).unwrap();
    assert_eq!(mounted.run("stat -c %s /cuesta/sparse"), "3\n");
}

/// Far longer than a program needs, in seconds.
const LIMIT: &str = "120";

#[test]
fn pipes_and_sockets_join_programs_of_both_doors() {
    let Some(mounted) = Mounted::new() else { return };
    let at = mounted.place.path("files").display().to_string();
    let run = |script: &str| {
        let program = ["run", "--store", "store", "--", "timeout", LIMIT, "python3", "-c", script];
        let mut command = mounted.place.command(&program);
        Running(command.stdout(Stdio::piped()).spawn().unwrap())
    };
    let said = |mut running: Running| {
        let mut text = String::new();
        running.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(running.0.wait().unwrap().success(), "{text}");
        text
    };
    assert!(Command::new("mkfifo").arg(mounted.path("pipe")).status().unwrap().success());
    let reader = run(&format!("print(open('{at}/pipe').read())"));
    let by_kernel = |script: &str| {
        let mut command = Command::new("timeout");
        let ended =
            command.args([LIMIT, "sh", "-ec", script]).current_dir(mounted.path("")).output().unwrap();
        assert!(ended.status.success(), "{script}: {ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    };
    by_kernel("printf 'by the mount' > pipe");
    assert_eq!(said(reader), "by the mount\n");
    let writer = run(&format!("import os; os.chdir('{at}'); open('pipe', 'w').write('by the other')"));
    assert_eq!(by_kernel("cat pipe"), "by the other");
    said(writer);
    // A program listens by one door, and hears a client that comes by the other.
    let listener = std::os::unix::net::UnixListener::bind(mounted.path("socket")).unwrap();
    let caller = run(&format!(
        "import os, socket; os.chdir('{at}'); s = socket.socket(socket.AF_UNIX); s.connect('socket'); s.send(b'word')"
    ));
    said(caller);
    let mut word = [0; 4];
    listener.accept().unwrap().0.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"word");
    std::fs::create_dir_all(mounted.path(&"long/".repeat(40))).unwrap();
    let heard = run(&format!(
        "import os, socket; os.chdir('{at}/{}'); s = socket.socket(socket.AF_UNIX); s.bind('there'); s.listen(); \
         print('listens', flush=True); print(s.accept()[0].recv(9).decode())",
        "long/".repeat(40)
    ));
    let mut lines = String::new();
    let mut heard = heard;
    let mut output = BufReader::new(heard.0.stdout.take().unwrap());
    output.read_line(&mut lines).unwrap();
    std::fs::rename(mounted.path(&format!("{}there", "long/".repeat(40))), mounted.path("there")).unwrap();
    let mut caller = std::os::unix::net::UnixStream::connect(mounted.path("there")).unwrap();
    caller.write_all(b"heard").unwrap();
    output.read_line(&mut lines).unwrap();
    assert_eq!(lines, "listens\nheard\n");
    assert!(heard.0.wait().unwrap().success());
}

/// A socket's name may be relative to a directory that was renamed, by whichever door.
#[test]
fn sockets_are_found_where_a_renamed_directory_is() {
    let Some(mounted) = Mounted::new() else { return };
    let at = mounted.place.path("files").display().to_string();
    let script = "
import os, socket, sys
at = sys.argv[1]
os.makedirs(f'{at}/first/within'); os.chdir(f'{at}/first')
print('there', flush=True); sys.stdin.readline()
def bound(name):
    server = socket.socket(socket.AF_UNIX); server.bind(name); server.listen()
    return server
servers = [bound('socket'), bound('within/socket')]
for name in ('socket', 'within/socket', f'{at}/second/socket', f'{at}/second/within/socket'):
    caller = socket.socket(socket.AF_UNIX); caller.connect(name); caller.send(name.encode())
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); receiver.bind('datagrams')
sender.sendto(b'word', 'datagrams'); print(receiver.recv(9).decode())
for server in servers:
    for _ in range(2): print(server.accept()[0].recv(99).decode().removeprefix(at))
print(*sorted(os.listdir(f'{at}/second')), *os.listdir(f'{at}/second/within'))
";
    let program = ["run", "--store", "store", "--", "timeout", LIMIT, "python3", "-c", script, &at];
    let mut command = mounted.place.command(&program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let mut output = BufReader::new(running.0.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    std::fs::rename(mounted.path("first"), mounted.path("second")).unwrap();
    running.0.stdin.take().unwrap().write_all(b"renamed\n").unwrap();
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    let wanted = "word\nsocket\n/second/socket\nwithin/socket\n/second/within/socket\ndatagrams socket within socket\n";
    assert_eq!(said, wanted);
    assert!(running.0.wait().unwrap().success());
}

/// O_APPEND that a descriptor gets later (`fcntl`): writes go to the end, which the kernel takes to be elsewhere.
#[test]
fn appends_by_a_flag_that_was_set_later_lose_nothing() {
    let Some(mounted) = Mounted::new() else { return };
    for (number, first, more, own) in [(0, 10, 10, 10), (1, 100, 5000, 9000), (2, 4096, 4096, 12_000)] {
        let path = mounted.path(&format!("{number}"));
        std::fs::write(&path, vec![b'a'; first]).unwrap();
        let mut file = File::options().read(true).write(true).open(&path).unwrap();
        file.read_to_end(&mut Vec::new()).unwrap();
        mounted.run(&format!("head -c {more} /dev/zero | tr '\\0' b >> /cuesta/{number}"));
        rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND).unwrap();
        file.write_all(&vec![b'c'; own]).unwrap();
        let wanted = [vec![b'a'; first], vec![b'b'; more], vec![b'c'; own]].concat();
        let mut found = vec![0; wanted.len() + 1];
        let length = file.read_at(&mut found, 0).unwrap();
        assert!(found[..length] == wanted, "{number}: by the mount, {length} bytes");
        let script = format!("tr -s abc < /cuesta/{number}; wc -c < /cuesta/{number}");
        assert_eq!(mounted.run(&script), format!("abc{}\n", wanted.len()));
    }
}

/// Calls of a program that keeps file handles, as a backup does, or a server of NFS.
struct Handle {
    bytes: [u8; 136],
}

impl Handle {
    fn of(path: &std::path::Path) -> Handle {
        let mut bytes = [0; 136];
        bytes[..4].copy_from_slice(&128u32.to_ne_bytes());
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        let mut mount = 0;
        // SAFETY: the path ends with a zero byte, and the handle has the 128 bytes that its head says.
        let made = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                libc::AT_FDCWD,
                name.as_ptr(),
                bytes.as_mut_ptr(),
                &raw mut mount,
                0,
            )
        };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        Handle { bytes }
    }

    fn open(&mut self, on: &File) -> std::io::Result<File> {
        // SAFETY: the handle is as long as its head says.
        let opened = unsafe {
            libc::syscall(
                libc::SYS_open_by_handle_at,
                on.as_raw_fd(),
                self.bytes.as_mut_ptr(),
                libc::O_RDONLY,
            )
        };
        if opened < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the call made the descriptor, which no other value owns.
        Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(opened as i32) })
    }
}

#[test]
fn file_handles_outlive_the_mount_and_the_daemon() {
    let Some(mounted) = Mounted::new() else { return };
    std::fs::create_dir_all(mounted.path("folder/deeper")).unwrap();
    std::fs::write(mounted.path("folder/deeper/file"), "content").unwrap();
    std::fs::write(mounted.path("gone"), "").unwrap();
    let handle = |name: &str| Handle::of(&mounted.path(name));
    let (mut file, mut folder, mut gone) =
        (handle("folder/deeper/file"), handle("folder/deeper"), handle("gone"));
    std::fs::remove_file(mounted.path("gone")).unwrap();
    std::fs::rename(mounted.path("folder/deeper"), mounted.path("moved")).unwrap();
    mounted.unmount();
    assert_eq!(mounted.place.cuesta(&["stop", "store"]).status(), 0);
    mounted.mount();
    // Nothing is looked up by its path before: the kernel knows the root alone.
    let root = File::open(mounted.path("")).unwrap();
    let mut text = String::new();
    file.open(&root).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "content");
    let folder = folder.open(&root).unwrap();
    let path = std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).unwrap();
    assert_eq!(path, mounted.path("moved").canonicalize().unwrap());
    assert_eq!(gone.open(&root).unwrap_err().raw_os_error(), Some(libc::ESTALE));
    // One of another store is not taken for one of this.
    let mut of_another = Handle { bytes: file.bytes };
    of_another.bytes[16] ^= 1;
    drop((root, folder));
    mounted.unmount();
    mounted.mount();
    let root = File::open(mounted.path("")).unwrap();
    assert_eq!(of_another.open(&root).unwrap_err().raw_os_error(), Some(libc::ESTALE));
    assert!(file.open(&root).is_ok());
}

#[test]
fn options_of_a_mount_are_changed() {
    let Some(mounted) = Mounted::new() else { return };
    let place = &mounted.place;
    std::fs::write(mounted.path("file"), "content").unwrap();
    let remount = |options: &str| place.cuesta(&["mount", "-o", options, "store", "files"]);
    let writes = || std::fs::write(mounted.path("new"), "").map_err(|error| error.raw_os_error().unwrap());
    let written = File::options().append(true).open(mounted.path("file")).unwrap();
    let refused = remount("remount,ro");
    assert_eq!(refused.status(), 1);
    assert!(refused.errors().contains("open for writing"), "{}", refused.errors());
    drop(written);
    // The kernel closes files a moment later.
    while remount("remount,ro,noexec").status() != 0 {}
    assert_eq!(writes(), Err(libc::EROFS));
    let list = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let options = || {
        let list = list();
        let at = mounted.path("").canonicalize().unwrap();
        let line = list.lines().find(|line| line.contains(at.to_str().unwrap())).unwrap();
        line.split(' ').nth(5).unwrap().to_owned()
    };
    assert_eq!(options(), "ro,noexec,relatime");
    assert_eq!(remount("remount,rw,nosymfollow,nodiratime").status(), 0);
    assert_eq!(writes(), Ok(()));
    assert_eq!(options(), "rw,noexec,nodiratime,relatime,nosymfollow");
    let unknown = remount("remount,rot");
    assert_eq!((unknown.status(), unknown.text()), (2, String::new()));
    // As mount(8) and mount.fuse3 start it: with all options that there are to be.
    let (store, files) = (place.path("store"), place.path("files"));
    let paths = [store.canonicalize().unwrap(), files.canonicalize().unwrap()];
    let mut helper = Command::new(place.path("bin/cuesta"));
    helper.args(paths).args(["-o", "rw,remount,noatime,dev,suid,user_id=0,default_permissions"]);
    assert!(helper.status().unwrap().success());
    assert_eq!(options(), "rw,noatime");
    assert_eq!(place.cuesta(&["mount", "-o", "remount,ro", "store", "bin"]).status(), 1);
}

/// A program that only reads the file may lock it so.
#[test]
fn a_record_lock_of_a_reader_keeps_no_program_from_being_executed() {
    let Some(mounted) = Mounted::new() else { return };
    mounted.run("printf '#!/bin/sh\\necho ran\\n' >/cuesta/tool; chmod 755 /cuesta/tool");
    let file = File::open(mounted.path("tool")).unwrap();
    let lock = libc::flock {
        l_type: libc::F_RDLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the kernel reads the one structure.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) }, 0);
    assert_eq!(mounted.run("/cuesta/tool"), "ran\n");
    drop(file);
}
