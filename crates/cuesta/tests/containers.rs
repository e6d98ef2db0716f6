//! Where there is no root's power, no /dev/fuse and next to nothing in /dev: a user namespace, a changed root.

use crate::common::TestFolder;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether this machine lets its users have namespaces of their own.
fn has_namespaces() -> bool {
    let allowed =
        Command::new("unshare").args(["-rmpf", "--mount-proc", "true"]).stderr(Stdio::null()).status();
    let has = allowed.is_ok_and(|status| status.success());
    if !has {
        println!("skipped: no namespaces here");
    }
    has
}

/// What `sh -c script` says with mounts and users of its own.
fn unshared(place: &TestFolder, options: &str, script: &str) -> String {
    let mut command = Command::new("unshare");
    command.args([options, "--mount-proc", "sh", "-c", script]).env_remove("CUESTA_STORE");
    command.env("P", place.path("")).current_dir(place.path("")).stdin(Stdio::null());
    let ended = crate::common::Ended(command.output().unwrap());
    assert_eq!(ended.status(), 0, "{}{}", ended.text(), ended.errors());
    ended.text()
}

#[test]
fn a_root_of_a_namespace_only_works_on_a_store_served_outside() {
    if !has_namespaces() {
        return;
    }
    let place = TestFolder::with_store();
    let made = place.cuesta(&["run", "--store", "store", "--", "sh", "-c", "echo outside > /cuesta/a"]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    let script = "bin/cuesta run --store store -- sh -c 'cat /cuesta/a; echo inside > /cuesta/b; id -u; stat -c %u /cuesta/b'";
    assert_eq!(unshared(&place, "-rmpf", script), "outside\n0\n0\n");
    let seen = place.cuesta(&["run", "--store", "store", "--", "cat", "/cuesta/b"]);
    assert_eq!(seen.text(), "inside\n", "{}", seen.errors());
}

#[test]
fn a_store_lives_in_a_changed_root_with_nothing_in_dev_but_shared_memory() {
    if !has_namespaces() {
        return;
    }
    let place = TestFolder::new();
    assert!(!Path::new("/cuesta").exists());
    let script = "set -e; R=$P/root; mkdir -p $R/usr $R/tmp $R/proc $R/dev
        mount --rbind /usr $R/usr; for name in bin sbin lib lib64; do ln -s usr/$name $R/$name; done
        mount --rbind /proc $R/proc; cp -r bin lib $R/tmp; mount -t tmpfs none $R/dev; mkdir $R/dev/shm
        : > $R/dev/null; mount --bind /dev/null $R/dev/null
        chroot $R /bin/sh -e -c '
            /tmp/bin/cuesta mkfs /tmp/s --medium memory --nvm 8M 2> /tmp/warned > /tmp/said
            /tmp/bin/cuesta run --store /tmp/s -- sh -c \"echo hello > /cuesta/f; cp /bin/cat /cuesta/cat; /cuesta/cat /cuesta/f; ls /cuesta\"
            /tmp/bin/cuesta stop /tmp/s; /tmp/bin/cuesta fsck /tmp/s | cut -d: -f1; ls /dev'";
    assert_eq!(unshared(&place, "-rmpf", script), "hello\ncat\nf\nstopped\nclean\nnull\nshm\n");
}
