# A program that forbids itself things by Landlock: what it may still do where, by itself, by its child and by what it executes.
cat >confine.py <<'END'
import ctypes, errno, fcntl, mmap, os, shutil, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
CREATE, ADD, RESTRICT = 444, 445, 446
(EXECUTE, WRITE, READ, LIST, RMDIR, RM, CHAR, MKDIR, MKREG, SOCK, FIFO, BLOCK, LINK, REFER, TRUNCATE) = (1 << n for n in range(15))
ALL = (1 << 15) - 1


def call(number, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(number, *arguments)
    return answer if answer >= 0 else -ctypes.get_errno()


def ruleset(handled, *rules):
    made = call(CREATE, ctypes.byref(ctypes.c_uint64(handled)), 8, 0)
    for path, allowed in rules:
        below = os.open(path, os.O_PATH)
        rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, below), 12)
        print("rule", path, oct(allowed), call(ADD, made, 1, rule, 0))
        os.close(below)
    return made


def restrict(made):
    libc.prctl(38, 1, 0, 0, 0)
    print("restrict", call(RESTRICT, made, 0))
    os.close(made)


def attempt(name, what):
    try:
        answer = what()
        if isinstance(answer, int) and answer > 2 and "open" in name:
            os.close(answer)
        print(name, "ok")
    except OSError as error:
        print(name, errno.errorcode[error.errno])


def write(path, flags=os.O_WRONLY):
    file = os.open(path, flags, 0o644)
    os.write(file, b"more\n")
    os.close(file)


def execute(path):
    child = os.fork()
    if child == 0:
        try:
            os.execv(path, [path])
        except OSError as error:
            os._exit(error.errno)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, path)


def cut_open(path, file=None):
    file = os.open(path, os.O_WRONLY) if file is None else file
    try:
        os.ftruncate(file, 2)
    finally:
        os.close(file)


def lock_and_map(path):
    with open(path, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with mmap.mmap(file.fileno(), 0) as memory:
            memory[0:1] = b"M"
        print("mapped", os.pread(file.fileno(), 1, 0))


def everything():
    for folder in ("in", "in/sub", "in/deep/deeper", "out", "out/sub"):
        attempt(f"list {folder}", lambda: os.listdir(folder))
        if os.path.exists(f"{folder}/file"):
            attempt(f"open {folder}", lambda: os.open(f"{folder}/file", os.O_RDONLY))
            attempt(f"open path {folder}", lambda: os.open(f"{folder}/file", os.O_PATH))
            attempt(f"stat {folder}", lambda: os.stat(f"{folder}/file"))
            attempt(f"chmod {folder}", lambda: os.chmod(f"{folder}/file", 0o640))
            attempt(f"write {folder}", lambda: write(f"{folder}/file"))
            attempt(f"append {folder}", lambda: write(f"{folder}/file", os.O_RDWR | os.O_APPEND))
            attempt(f"lock and map {folder}", lambda: lock_and_map(f"{folder}/file"))
            attempt(f"cut {folder}", lambda: os.truncate(f"{folder}/file", 5))
            attempt(f"cut open {folder}", lambda: cut_open(f"{folder}/file"))
            attempt(f"open cut {folder}", lambda: os.open(f"{folder}/file", os.O_WRONLY | os.O_TRUNC))
        attempt(f"make {folder}", lambda: os.mknod(f"{folder}/new", 0o100644))
        attempt(f"mkdir {folder}", lambda: os.mkdir(f"{folder}/folder"))
        attempt(f"mkfifo {folder}", lambda: os.mkfifo(f"{folder}/fifo"))
        attempt(f"symlink {folder}", lambda: os.symlink("file", f"{folder}/symlink"))
        attempt(f"rename within {folder}", lambda: os.rename(f"{folder}/new", f"{folder}/newer"))
        attempt(f"replace within {folder}", lambda: os.rename(f"{folder}/newer", f"{folder}/symlink"))
        attempt(f"rmdir {folder}", lambda: os.rmdir(f"{folder}/folder"))
        attempt(f"unlink {folder}", lambda: os.unlink(f"{folder}/symlink"))
        attempt(f"unlink fifo {folder}", lambda: os.unlink(f"{folder}/fifo"))
        attempt(f"unlink missing {folder}", lambda: os.unlink(f"{folder}/missing"))
        attempt(f"mkdir existing {folder}", lambda: os.mkdir(f"{folder}/../sub"))
    attempt("open single", lambda: os.open("single", os.O_RDONLY))
    attempt("open up", lambda: os.open("in/../single", os.O_RDONLY))
    attempt("open root", lambda: os.open(".", os.O_RDONLY))
    for name, new in (("in/file", "in/sub/moved"), ("in/sub/moved", "in/file"), ("in/file", "out/moved"), ("out/file", "in/moved"),
                      ("in/sub", "out/folder"), ("in/deep", "in/sub/deep"), ("in/sub/deep", "in/deep")):
        attempt(f"rename {name} {new}", lambda: os.rename(name, new))
    for name, new in (("in/file", "in/sub/linked"), ("in/file", "in/linked"), ("in/file", "out/linked"), ("out/file", "in/linked too")):
        attempt(f"link {name} {new}", lambda: os.link(name, new))
    attempt("execute in", lambda: execute("in/program"))
    attempt("execute out", lambda: execute("out/program"))


def begin():
    for folder in ("in", "out"):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in ("in/sub", "in/deep/deeper", "out/sub"):
        os.makedirs(folder)
    for name in ("in/file", "in/sub/file", "in/deep/deeper/file", "out/file", "out/sub/file", "single"):
        with open(name, "w") as file:
            file.write(name)
    for name in ("in/program", "out/program"):
        shutil.copy("/bin/true", name)
    return os.open("out/sub/file", os.O_RDWR)


def scenario(name, *made):
    held = begin()
    sys.stdout.flush()
    if os.fork() == 0:
        print("==", name)
        for handled, *rules in made:
            restrict(ruleset(handled, *rules))
        everything()
        attempt("cut held", lambda: cut_open(None, held))
        sys.stdout.flush()
        os._exit(0)
    os.wait()
    os.close(held)


system = [(path, EXECUTE | READ | LIST) for path in ("/usr", "/lib", "/lib64") if os.path.isdir(path)]
if call(CREATE, None, 0, 1) < 3:
    print("this kernel has no Landlock that restricts cutting files")
    sys.exit()
scenario("nothing allowed", (ALL, *system))
scenario("reading within", (ALL, ("in", EXECUTE | READ | LIST), *system))
scenario("all within", (ALL, ("in", ALL), *system))
scenario("all but moves within", (ALL & ~REFER, ("in", ALL & ~REFER), *system))
scenario("one file", (READ | WRITE | TRUNCATE, ("in/file", READ | WRITE), *((path, READ) for path, _ in system)))
scenario("two layers", (ALL, (".", ALL), *system), (WRITE | TRUNCATE | MKREG, ("in/sub", WRITE | MKREG)))
scenario("all of the machine", (ALL, ("/", ALL)))
scenario("only names", (RM | MKREG | REFER, ("in", MKREG | REFER), ("out", MKREG | RM | REFER)))
held = begin()
made = ruleset(ALL)
file = ctypes.create_string_buffer(struct.pack("=Qi", ALL, os.open("in/file", os.O_PATH)), 12)
print("a file with a folder's rights", call(ADD, made, 1, file, 0))
print("no rights", call(ADD, made, 1, ctypes.create_string_buffer(struct.pack("=Qi", 0, os.open("in", os.O_PATH)), 12), 0))
print("not a ruleset", call(ADD, held, 1, file, 0), call(ADD, 900, 1, file, 0), call(RESTRICT, held, 0))
print("closed", call(ADD, made, 1, ctypes.create_string_buffer(struct.pack("=Qi", READ, 900), 12), 0))
print("flags", call(ADD, made, 1, file, 1), call(ADD, made, 7, file, 0))
copy = os.dup(made)
os.close(made)
child = os.fork()
if child == 0:
    restrict(copy)
    attempt("open by a ruleset's copy", lambda: os.open("in/file", os.O_RDONLY))
    sys.stdout.flush()
    os._exit(0)
os.wait()
if len(sys.argv) == 1 and os.fork() == 0:
    restrict(ruleset(WRITE | MKREG, (os.getcwd() + "/in", WRITE | MKREG)))
    os.execvp("sh", ["sh", "-c", "echo x >in/file; echo in $?; echo x >out/file; echo out $?; cat out/file"])
os.wait()
if os.fork() == 0:
    restrict(ruleset(ALL & ~WRITE, (os.getcwd() + "/in", ALL & ~WRITE), ("/etc", READ | LIST), *system))
    os.execvp("sh", ["sh", "-c", "echo x >in/file; cat in/file; mv in/file in/sub; ls in/sub; cat out/file; in/program; echo $?; out/program; echo $?"])
os.wait()
END
python3 confine.py

# A launcher that makes the ruleset between vfork and exec: its child is confined, and it is not.
cat >launch.c <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	struct { uint64_t allowed; int32_t below; } __attribute__((packed)) rule = { 1 << 1, open("in", O_PATH) };
	for (int round = 0; round < 20; round++) {
		pid_t child = vfork();
		if (child == 0) {
			uint64_t handled = 1 << 1;
			int made = syscall(SYS_landlock_create_ruleset, &handled, 8, 0);
			syscall(SYS_landlock_add_rule, made, 1, &rule, 0);
			prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
			syscall(SYS_landlock_restrict_self, made, 0);
			execlp("sh", "sh", "-c", "echo in >in/file && echo out >out/file", NULL);
			_exit(1);
		}
		int status;
		waitpid(child, &status, 0);
		int out = open("out/file", O_WRONLY);
		printf("%d %d %d\n", status, write(out, "still", 5), close(out));
	}
	/* What the children made is not the parent's. */
	for (int round = 0; round < 20; round++) {
		uint64_t handled = 1 << 1;
		int made = syscall(SYS_landlock_create_ruleset, &handled, 8, 0);
		syscall(SYS_landlock_add_rule, made, 1, &rule, 0);
		if (round == 19) {
			prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
			printf("%ld\n", syscall(SYS_landlock_restrict_self, made, 0));
		}
		close(made);
	}
	printf("%d %d\n", open("in/file", O_WRONLY) >= 0, open("out/file", O_WRONLY) >= 0);
}
END
gcc -O1 -w -o launch launch.c && ./launch 2>/dev/null
rm -f launch
