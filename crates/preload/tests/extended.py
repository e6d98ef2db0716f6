"""Extended attributes by every call there is, as root and as another user: says what each answers."""

import ctypes
import errno
import os
import sys

os.chdir(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
CAPABILITY = "security.capability"
VERSION_2 = b"\0\0\0\2" + bytes(16)


def say(label, call, *arguments, **options):
    try:
        answer = call(*arguments, **options)
    except OSError as error:
        answer = errno.errorcode[error.errno]
    if isinstance(answer, list):
        answer = sorted(answer)
    print(label, answer)


def raw(label, name, *arguments):
    ctypes.set_errno(0)
    answer = getattr(libc, name)(*arguments)
    print(label, answer if answer >= 0 else errno.errorcode[ctypes.get_errno()])


def write(path):
    with open(path, "r+b", buffering=0) as file:
        file.write(b"x")


SET, GET, LIST, REMOVE = os.setxattr, os.getxattr, os.listxattr, os.removexattr


def every_call(who):
    print(who)
    for name in ["", "user.", "odd", "user." + "n" * 251, "system.odd", "trusted.", "security.odd"]:
        for call, arguments in [(SET, [b"x"]), (GET, []), (REMOVE, [])]:
            say(f"{call.__name__} {name[:20]}", call, "f", name, *arguments)
        say("of nothing", SET, "nothing", name, b"x")
    name = "user." + "n" * 250
    say("longest name", SET, "f", name, b"x")
    say("of longest name", GET, "f", name)
    say("longest name gone", REMOVE, "f", name)
    for flags in [0, os.XATTR_CREATE, os.XATTR_CREATE, os.XATTR_REPLACE, 3, 4]:
        say(f"set with {flags}", SET, "f", "user.a", str(flags).encode(), flags)
    say("get", GET, "f", "user.a")
    say("replace what is not there", SET, "f", "user.b", b"", os.XATTR_REPLACE)
    say("both of what is not there", SET, "f", "user.b", b"", 3)
    say("odd flags, nothing there", SET, "nothing", "user.b", b"", 4)
    say("too large", SET, "f", "user.b", bytes(65537))
    say("too large for nothing", SET, "nothing", "user.b", bytes(65537))
    say("large", SET, "f", "user.large", b"l" * 3000)
    say("large again", lambda: len(GET("f", "user.large")))
    say("remove", REMOVE, "f", "user.large")
    say("remove again", REMOVE, "f", "user.large")
    say("trusted", SET, "f", "trusted.a", b"t")
    say("of trusted", GET, "f", "trusted.a")
    say("of a file as a directory", SET, "f/", "user.a", b"")
    say("list", LIST, "f")
    for what in ["link", "pipe"]:
        options = {"follow_symlinks": False}
        say(f"user on a {what}", SET, what, "user.a", b"x", **options)
        say(f"of user on a {what}", GET, what, "user.a", **options)
        say(f"user gone from a {what}", REMOVE, what, "user.a", **options)
        say(f"trusted on a {what}", SET, what, "trusted.a", b"x", **options)
        say(f"list of a {what}", LIST, what, **options)
    say("through the link", GET, "link", "user.a")
    say("list through the link", LIST, "link")
    say("on a sticky directory", SET, "sticky", "user.a", b"x")
    say("of a sticky directory", GET, "sticky", "user.a")
    say("broken link", GET, "broken", "user.a")
    say("broken link itself", LIST, "broken", follow_symlinks=False)


def descriptors():
    for flags in [os.O_RDONLY, os.O_WRONLY, os.O_PATH]:
        file = os.open("f", flags)
        say("set by descriptor", SET, file, "user.d", b"d")
        say("get by descriptor", GET, file, "user.d")
        say("list by descriptor", LIST, file)
        by_name = f"/proc/self/fd/{file}"
        say("set by its name", SET, by_name, "user.n", b"n")
        say("get by its name", GET, by_name, "user.n")
        say("list by its name", LIST, by_name)
        say("remove by its name", REMOVE, by_name, "user.n")
        say("get of the name itself", GET, by_name, "user.d", follow_symlinks=False)
        say("remove by descriptor", REMOVE, file, "user.d")
        os.close(file)
    directory = os.open("sticky", os.O_RDONLY)
    say("directory by descriptor", SET, directory, "user.a", b"d")
    say("of directory by descriptor", GET, "sticky", "user.a")
    os.close(directory)
    file = os.open("gone", os.O_RDWR | os.O_CREAT)
    os.unlink("gone")
    say("without a name", SET, file, "user.a", b"still")
    say("of one without a name", GET, file, "user.a")
    os.close(file)
    say("no descriptor", GET, 999, "user.a")
    say("no descriptor, no name", SET, 999, "n" * 300, b"")


def buffers():
    SET("f", "user.a", b"12345")
    room = ctypes.create_string_buffer(10)
    raw("how long", "getxattr", b"f", b"user.a", None, 0)
    raw("too small", "getxattr", b"f", b"user.a", room, 3)
    raw("exact", "getxattr", b"f", b"user.a", room, 5)
    print(room.value)
    raw("no buffer", "getxattr", b"f", b"user.a", None, 10)
    raw("how long is the list", "listxattr", b"f", None, 0)
    raw("list too small", "listxattr", b"f", room, 3)
    raw("list without buffer", "listxattr", b"f", None, 100)
    raw("value without buffer", "setxattr", b"f", b"user.b", None, 3, 0)
    raw("empty value without buffer", "setxattr", b"f", b"user.b", None, 0, 0)
    raw("of empty value", "getxattr", b"f", b"user.b", room, 10)
    raw("no name", "setxattr", b"f", None, room, 1, 0)
    raw("no path", "getxattr", None, b"user.a", room, 10)
    name = ctypes.create_string_buffer(b"user.x")
    raw("raw", "syscall", 188, b"f", name, b"raw", 3, 0)
    say("of raw", GET, "f", "user.x")
    REMOVE("f", "user.x")


def capabilities():
    changes = {
        "write": write,
        "truncate": lambda path: os.truncate(path, 0),
        "O_TRUNC": lambda path: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
        "chown": lambda path: os.chown(path, -1, -1),
        "chmod": lambda path: os.chmod(path, 0o755),
        "rename": lambda path: (os.rename(path, "other"), os.rename("other", path)),
    }
    say("no capability", SET, "f", CAPABILITY, b"odd")
    for name, change in changes.items():
        open("program", "w").close()
        SET("program", CAPABILITY, VERSION_2)
        SET("program", "user.a", b"stays")
        change("program")
        say(f"after {name}", LIST, "program")
        os.unlink("program")


def names():
    say("hard link", lambda: os.link("f", "hard"))
    say("of hard link", GET, "hard", "user.a")
    os.rename("hard", "moved")
    say("of moved", GET, "moved", "user.a")
    open("over", "w").close()
    SET("over", "user.over", b"o")
    os.rename("over", "moved")
    say("of what came over it", LIST, "moved")
    open("outside", "w").close()
    os.symlink("/proc/self/status", "out")
    say("out of here", GET, "out", "user.a")
    say("out and in again", GET, f"../{os.path.basename(os.getcwd())}/f", "user.a")
    before = os.stat("f")
    while os.stat("f").st_ctime_ns == before.st_ctime_ns:
        SET("f", "user.a", b"later")
    after = os.stat("f")
    print(before.st_mtime_ns == after.st_mtime_ns, before.st_size == after.st_size)


open("f", "w").close()
os.symlink("f", "link")
os.symlink("nowhere", "broken")
os.mkfifo("pipe")
os.mkdir("sticky")
os.chmod("sticky", 0o1777)
os.chmod(".", 0o777)
os.chmod("f", 0o644)
every_call("root")
descriptors()
buffers()
capabilities()
names()
os.setgroups([])
for mode in [0o644, 0o666]:
    os.chmod("f", mode)
    os.setegid(1000)
    os.seteuid(1000)
    every_call(f"another user, {mode:o}")
    os.seteuid(0)
    os.setegid(0)
