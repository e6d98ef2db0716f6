# Every call about files that Linux has, with a file, a folder and a descriptor for paths only in directory sys.argv[1], at every
# place a call may have one, and with what may go along. Prints which answers are no errors, and the errors.
import ctypes, errno, os, signal, socket, sys

CALLS = {
    'read': 0, 'write': 1, 'open': 2, 'close': 3, 'stat': 4, 'fstat': 5, 'lstat': 6, 'lseek': 8, 'mmap': 9,
    'ioctl': 16, 'pread64': 17, 'pwrite64': 18, 'readv': 19, 'writev': 20, 'access': 21, 'dup': 32, 'dup2': 33,
    'sendfile': 40, 'connect': 42, 'accept': 43, 'sendto': 44, 'recvfrom': 45, 'sendmsg': 46, 'recvmsg': 47, 'shutdown': 48,
    'bind': 49, 'listen': 50, 'getsockname': 51, 'getpeername': 52, 'setsockopt': 54, 'getsockopt': 55, 'fcntl': 72,
    'flock': 73, 'fsync': 74, 'fdatasync': 75, 'truncate': 76, 'ftruncate': 77, 'getdents': 78, 'chdir': 80, 'fchdir': 81,
    'rename': 82, 'mkdir': 83, 'rmdir': 84, 'creat': 85, 'link': 86, 'unlink': 87, 'symlink': 88, 'readlink': 89, 'chmod': 90,
    'fchmod': 91, 'chown': 92, 'fchown': 93, 'lchown': 94, 'utime': 132, 'mknod': 133, 'statfs': 137, 'fstatfs': 138,
    'readahead': 187, 'setxattr': 188, 'lsetxattr': 189, 'fsetxattr': 190, 'getxattr': 191, 'lgetxattr': 192, 'fgetxattr': 193,
    'listxattr': 194, 'llistxattr': 195, 'flistxattr': 196, 'removexattr': 197, 'lremovexattr': 198, 'fremovexattr': 199,
    'getdents64': 217, 'fadvise64': 221, 'utimes': 235, 'openat': 257, 'mkdirat': 258, 'mknodat': 259,
    'fchownat': 260, 'futimesat': 261, 'newfstatat': 262, 'unlinkat': 263, 'renameat': 264, 'linkat': 265, 'symlinkat': 266,
    'readlinkat': 267, 'fchmodat': 268, 'faccessat': 269, 'splice': 275, 'tee': 276,
    'sync_file_range': 277, 'vmsplice': 278, 'utimensat': 280, 'fallocate': 285, 'accept4': 288, 'dup3': 292, 'preadv': 295,
    'pwritev': 296, 'recvmmsg': 299, 'syncfs': 306, 'sendmmsg': 307, 'kcmp': 312, 'renameat2': 316, 'copy_file_range': 326,
    'preadv2': 327, 'pwritev2': 328, 'statx': 332, 'close_range': 436, 'openat2': 437, 'pidfd_getfd': 438, 'faccessat2': 439,
    'fchmodat2': 452, 'epoll_wait': 232, 'inotify_rm_watch': 255, 'epoll_pwait': 281, 'signalfd': 282, 'timerfd_settime': 286,
    'timerfd_gettime': 287, 'signalfd4': 289, 'setns': 308, 'io_uring_enter': 426, 'io_uring_register': 427, 'fsmount': 432,
    'epoll_pwait2': 441, 'landlock_restrict_self': 446, 'mq_timedsend': 242, 'mq_timedreceive': 243, 'mq_notify': 244,
    'mq_getsetattr': 245, 'pidfd_send_signal': 424, 'process_madvise': 440, 'process_mrelease': 448, 'cachestat': 451,
    'setxattrat': 463, 'getxattrat': 464, 'listxattrat': 465, 'removexattrat': 466, 'open_tree': 428,
}
D = sys.argv[1] + '/every'
os.mkdir(D)
libc = ctypes.CDLL(None, use_errno=True)
os.umask(0o022)

# What pointers lead to lies where it always lies, as some calls take them for numbers.
PLACE = 0x2000_0000
libc.mmap.restype = ctypes.c_void_p
assert libc.mmap(ctypes.c_void_p(PLACE), ctypes.c_size_t(1 << 20), 3, 0x32 | 0x100000, -1, ctypes.c_long(0)) == PLACE
ROOM, PATH, STRINGS = PLACE, PLACE + (1 << 16), PLACE + (2 << 16)

def tried(number, make, shape):
    fd, pipe = os.open(*make), os.pipe()
    ctypes.memset(PLACE, 0, 1 << 20)
    ctypes.memmove(PATH, make[0].encode(), len(make[0]))
    meaning = {'fd': fd, 'path': PATH, 'room': ROOM, 'pipe': pipe[0], 'into': pipe[1], 'here': -100, 'own': os.getpid()}
    arguments = []
    for place, part in enumerate(shape):
        if isinstance(part, bytes):
            ctypes.memmove(STRINGS + place * 4096, part, len(part))
            part = STRINGS + place * 4096
        arguments.append(ctypes.c_long(meaning.get(part, part)))
    ctypes.set_errno(0)
    answer = libc.syscall(number, *arguments)
    said = 'ok' if answer >= 0 or answer < -4095 else errno.errorcode[ctypes.get_errno()]
    for one in (fd, *pipe):
        try:
            os.close(one)
        except OSError:
            pass
    return said

SHAPES = [
    ('fd', 0, 0, 0, 0, 0), ('fd', 'room', 0, 0, 0, 0), ('fd', 'room', 16, 0, 0, 0),
    ('fd', 0, 0, 1, 0, 0), ('fd', 'fd', 0, 0, 0, 0), ('fd', 'fd', 0, 16, 0, 0), ('fd', 0, 'fd', 0, 16, 0), ('pipe', 'fd', 0, 16, 0, 0),
    ('fd', 'into', 0, 16, 0, 0), ('fd', 0, 'into', 0, 16, 0), ('into', 'fd', 0, 16, 0, 0), ('into', 0, 'fd', 0, 16, 0),
    ('path', 0, 0, 0, 0, 0), ('path', 'room', 'room', 16, 0, 0), ('path', 0o700, 0, 0, 0, 0), ('path', -1, -1, 0, 0, 0),
    ('here', 'path', 0, 0, 0, 0), ('here', 'path', 'room', 0, 0, 0), ('here', 'path', 'room', 16, 0, 0), ('here', 'path', 0, 0, 'room', 0),
    ('here', 'path', -1, -1, -1, 0), ('fd', b'', 0, 0, 0x1000, 0), ('fd', b'', 'room', 0x1000, 0, 0), ('fd', b'', 0x1000, 0, 'room', 0),
    ('fd', b'name', 0, 0, 0, 0), ('fd', b'name', 'room', 0, 0, 0), ('fd', b'none', 'room', 0, 0, 0), ('path', 'path', 0, 0, 0, 0),
    ('here', 'path', 'here', 'path', 0, 0), ('fd', b'name', 'fd', b'other', 0, 0),
    (b'target', 'path', 0, 0, 0, 0), (b'target', 'fd', b'link', 0, 0, 0), (0, 4096, 1, 2, 'fd', 0), (0, 4096, 3, 2, 'fd', 4096),
    (0, 4096, 1, 0, 'fd', 0), (0, 4096, 1, 2, 'fd', 1), (0, 0, 1, 2, 'fd', 0), ('own', 'own', 0, 'fd', 'fd', 0), ('own', 'own', 0, 'fd', 'pipe', 0),
]
SOCKETS = ('connect', 'accept', 'sendto', 'recvfrom', 'sendmsg', 'recvmsg', 'shutdown', 'bind', 'listen', 'getsockname', 'getpeername',
           'setsockopt', 'getsockopt', 'accept4', 'recvmmsg', 'sendmmsg')

# Where two things are wrong, which of them is told first is not compared.
def shapes_of(call, thing):
    if 'sync' in call or call in SOCKETS or (call, thing) == ('copy_file_range', 'path'):
        return SHAPES[:2]
    if call.startswith('renameat'):
        return [shape for shape in SHAPES if shape[0] != 'fd' or shape[2] == 'fd' or not isinstance(shape[1], bytes)]
    # A process's number is another each time.
    return [shape for shape in SHAPES if (call, shape) not in TWICE_WRONG and (shape[0] != 'own' or call == 'kcmp')]
TWICE_WRONG = {('sendfile', ('fd', 0, 0, 1, 0, 0)), ('copy_file_range', ('fd', b'', 'room', 0x1000, 0, 0)), ('splice', ('fd', 0, 'into', 0, 16, 0))}

THINGS = {'file': os.O_RDWR, 'read only': os.O_RDONLY, 'written': os.O_WRONLY | os.O_APPEND, 'folder': os.O_RDONLY, 'path': os.O_PATH}
def restore():
    for old in ('folder/other', 'folder/link', 'target', 'link', 'other'):
        if os.path.isdir(f'{D}/{old}') and not os.path.islink(f'{D}/{old}'):
            os.rmdir(f'{D}/{old}')
        elif os.path.lexists(f'{D}/{old}'):
            os.unlink(f'{D}/{old}')
    if not os.path.isdir(f'{D}/folder'):
        os.mkdir(f'{D}/folder')
    for name in ('file', 'written', 'folder/name'):
        if not os.path.lexists(f'{D}/{name}'):
            with open(f'{D}/{name}', 'w') as file:
                file.write('x' * 100)
for call, number in CALLS.items():
    for thing, flags in THINGS.items():
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            # Below all that is opened later, and closed.
            os.dup2(writer, 3)
            # 0 stands for a descriptor, too: the mode and owner of what tests are started with are not to be changed.
            end, other = os.pipe()
            os.dup2(end, 0)
            os.close(other)
            os.close(end)
            signal.alarm(3)
            name = thing if thing in ('folder', 'written') else 'file'
            for shape in shapes_of(call, thing):
                os.chdir(D)
                restore()
                os.write(3, (tried(number, (f'{D}/{name}', flags), shape) + ' ').encode())
            os._exit(0)
        os.close(writer)
        said = b''
        while part := os.read(reader, 1 << 16):
            said += part
        os.close(reader)
        ended = os.waitpid(child, 0)[1]
        print(call, thing, said.decode(), ended, flush=True)
