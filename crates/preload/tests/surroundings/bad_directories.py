# Calls on two and one directory descriptors, of which one is none, or is a file.
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(sys.argv[1])
open('f', 'w').close()
directory, file, path = os.open('.', os.O_RDONLY), os.open('f', os.O_RDONLY), os.open('f', os.O_PATH)

def told(answer):
    return 'ok' if answer == 0 else errno.errorcode[ctypes.get_errno()]

buffer = ctypes.create_string_buffer(4096)
for name, bad in (('-1', -1), ('-5', -5), ('lowest', -2**31), ('highest', 2**31 - 1), ('9999', 9999), ('file', file), ('path', path)):
    for target in (b'f', b'no/f', b'../f', b''):
        print(name, target, *(told(answer()) for answer in (
            lambda: libc.linkat(bad, target, directory, b'g', 0), lambda: libc.linkat(directory, b'f', bad, target, 0),
            lambda: libc.linkat(bad, target, directory, b'g', 0x400),
            lambda: libc.renameat(bad, target, directory, b'h'), lambda: libc.renameat(directory, b'f', bad, target),
            lambda: libc.renameat2(bad, target, directory, b'h', 1), lambda: libc.renameat2(directory, b'f', bad, target, 1),
            lambda: libc.symlinkat(b'x', bad, target), lambda: libc.mkdirat(bad, target, 0o700), lambda: libc.unlinkat(bad, target, 0),
            lambda: libc.faccessat(bad, target, 0, 0), lambda: libc.fchownat(bad, target, -1, -1, 0), lambda: libc.fchmodat(bad, target, 0o600, 0),
            lambda: min(0, libc.readlinkat(bad, target, buffer, 10)), lambda: min(0, libc.openat(bad, target, os.O_RDONLY)),
            lambda: libc.execveat(bad, target, None, None, 0), lambda: libc.fstatat(bad, target, buffer, 0))))
print(sorted(os.listdir('.')))
