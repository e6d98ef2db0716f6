//! Executing what lies on the store, and what cannot be served.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Finish as _, PREFIX, Served, compare, compiled, told};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/execution.sh");

#[test]
fn programs_and_scripts_of_the_store_run_as_those_of_a_directory() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let directory = folder.path().to_str().expect("a plain name").to_owned();
    let kernel = Command::new("bash").args([SCRIPT, &directory]).finish();
    let ours = store.command("bash").args([SCRIPT, PREFIX]).finish();
    let plain = |text: String, directory: &str| text.replace(directory, "D").replace(SCRIPT, "S");
    compare(&plain(told(&kernel), &directory), &plain(told(&ours), PREFIX));
}

/// A statically linked program that prints its arguments.
fn statically_linked(folder: &Path) -> PathBuf {
    let source = "#include <stdio.h>\nint main(int n, char **v) { for (int i = 1; i < n; i++) puts(v[i]); puts(\"ran\"); }";
    compiled(folder, "alone", source, &["-static"])
}

#[test]
fn a_static_child_without_anything_of_the_store_runs_as_always() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let program = statically_linked(folder.path());
    let script = format!("echo x > /cuesta/f; {} a /cuestas | cat; cat /cuesta/f", program.display());
    let told = told(&store.command("sh").args(["-c", &script]).finish());
    assert_eq!(told, "a\n/cuestas\nran\nx\nexit status: 0\n");
}

#[test]
fn a_static_child_that_would_have_something_of_the_store_is_refused_with_a_line() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let program = statically_linked(folder.path());
    let name = program.display();
    for (script, why) in [
        (format!("{name} --in=/cuesta/f"), "its argument --in=/cuesta/f lies there"),
        (format!("{name} > /cuesta/out"), "it inherits descriptor 1"),
        (format!("mkdir /cuesta/d; cd /cuesta/d; {name}"), "its working directory lies in the store"),
        (format!("cp {name} /cuesta/alone; /cuesta/alone /cuesta"), "its argument /cuesta lies there"),
    ] {
        let script = format!("{script}; echo $?");
        let told = told(&store.command("bash").args(["-c", &script]).finish());
        assert!(told.contains("alone is statically linked, so the store cannot be served to it: "), "{told}");
        assert!(
            told.contains(why) && told.contains("Operation not supported") && told.contains("126"),
            "{told}"
        );
        assert!(!told.contains("ran"), "{told}");
    }
    let told =
        told(&store.command("bash").args(["-c", "cp $0 /cuesta/p; /cuesta/p x", &name.to_string()]).finish());
    assert_eq!(told, "x\nran\nexit status: 0\n", "from the store, having nothing of it");
}

#[test]
fn a_set_id_child_is_refused_only_where_it_changes_the_user() {
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "other", "#include <stdio.h>\nint main() { puts(\"ran\"); }", &[]);
    let store = Served::new();
    let run = |mode: u32| {
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).expect("mode");
        let script = format!("{} /cuesta/f; echo $?", program.display());
        told(&store.command("bash").args(["-c", &script]).finish())
    };
    assert!(run(0o4755).starts_with("ran\n"), "set-id to the same user changes nothing");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::os::unix::fs::chown(&program, Some(1), Some(1)).expect("chown");
    let told = run(0o4755);
    assert!(
        told.contains("other is a set-id program, so the store cannot be served to it")
            && told.contains("126"),
        "{told}"
    );
    assert!(run(0o755).starts_with("ran\n"));
}

/// The script finds programs busy, the same ones on the store and in the directory it is given.
fn busy_as_in_a_directory(script: &str) {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let directory = folder.path().to_str().expect("a plain name").to_owned();
    let kernel = Command::new("python3").args(["-c", script, &directory]).finish();
    let ours = store.command("python3").args(["-c", script, PREFIX]).finish();
    assert!(kernel.status.success() && told(&kernel).contains("ETXTBSY"), "{}", told(&kernel));
    compare(&told(&kernel), &told(&ours));
}

#[test]
fn a_program_that_runs_is_not_written() {
    let script = "
import errno, os, shutil, subprocess, sys
program = sys.argv[1] + '/program'
def said(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
def opened(name, flags):
    os.close(os.open(name, flags))
def tries(name):
    return [said(opened, name, flags) for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC)], said(os.truncate, name, 9)
shutil.copy(shutil.which('cat'), program)
size = os.stat(program).st_size
for _ in range(2):
    running = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    running.stdin.write(b'x')
    running.stdin.flush()
    running.stdout.read(1)
    print(tries(program), os.stat(program).st_size == size)
    print(subprocess.run(['sh', '-c', 'echo x >> $0 || echo refused', program], capture_output=True).stdout)
    os.rename(program, program + '2')
    os.link(program + '2', program)
    print(tries(program + '2'), said(os.chmod, program, 0o700))
    os.unlink(program + '2')
    running.stdin.close()
    running.wait()
    print(said(opened, program, os.O_RDWR))
print(tries(program), os.stat(program).st_size)
";
    busy_as_in_a_directory(script);
}

#[test]
fn a_program_that_is_written_does_not_run() {
    let script = "
import errno, os, shutil, signal, subprocess, sys
os.chdir(sys.argv[1])
def runs(name):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.execv(name, ['program', 'ran'])
        except OSError as error:
            os.write(writer, errno.errorcode[error.errno].encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 100)
    os.close(reader)
    os.wait()
    return said or 'runs'
def spawned(name):
    try:
        return subprocess.run([name, 'ran'], capture_output=True).stdout
    except OSError as error:
        return errno.errorcode[error.errno]
def says(what):
    print(what, [(name, runs(name), spawned(name)) for name in ('./program', './script', './interpreted')], flush=True)
shutil.copy(shutil.which('echo'), 'program')
with open('script', 'w') as file: file.write('#!/bin/sh\\necho script\\n')
with open('interpreted', 'w') as file: file.write('#!./program\\n')
os.chmod('script', 0o755)
os.chmod('interpreted', 0o755)
says('closed')
for flags in os.O_RDONLY, os.O_PATH, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND | os.O_CREAT:
    for name in 'program', 'script', 'interpreted':
        fd = os.open(name, flags, 0o777)
        says(f'{flags} {name}')
        os.close(fd)
says('closed again')
def held(what, holder):
    holder.stdout.readline()
    says(what)
    holder.stdin.close()
    holder.wait()
    says('after it')
def holder(command):
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
held('by another program', holder([sys.executable, '-c', 'import sys; f = open(\"program\", \"r+b\"); print(1, flush=True); sys.stdin.read()']))
held('by a shell', holder(['sh', '-c', 'exec 9>> script; echo held; read x; true']))
held('by a program of a shell', holder(['sh', '-c', '{ echo held; read x; } 9>> script; true']))
held('by one that was given it', holder(['sh', '-c', 'exec 9>> program; exec cat /dev/fd/3 - 3<<E\\nheld\\nE']))
held('by one that was not', holder([sys.executable, '-c', 'import os; f = os.open(\"program\", os.O_RDWR); os.execlp(\"sh\", \"sh\", \"-c\", \"echo held; read x\")']))
with open('nonsense', 'w') as file: file.write('x')
os.chmod('nonsense', 0o755)
held('by one whose exec failed', holder([sys.executable, '-c', '''
import os, sys
file = open(\"program\", \"r+b\")
try: os.execv(\"./nonsense\", [\"x\"])
except OSError as error: print(error, flush=True)
sys.stdin.read()''']))
fd = os.open('program', os.O_RDWR)
ready, told = os.pipe()
child = os.fork()
if child == 0:
    os.write(told, b'x')
    signal.pause()
os.close(fd)
os.read(ready, 1)
says('by a child')
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
says('after it was killed')
for turn in range(20):
    victim = holder([sys.executable, '-c', 'import sys; f = open(\"program\", \"r+b\"); print(1, flush=True); sys.stdin.read()'])
    victim.stdout.readline()
    victim.kill()
    victim.wait()
    if runs('./program') != 'runs' and spawned('./program') != b'ran\\n': print('still busy', turn)
    with open(f'new{turn}', 'wb') as file: file.write(open('program', 'rb').read())
    os.chmod(f'new{turn}', 0o755)
    print(spawned(f'./new{turn}'))
";
    busy_as_in_a_directory(script);
}
