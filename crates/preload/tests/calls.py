# Calls that ordinary commands make seldom, in directory sys.argv[1]. Prints nothing that varies.
import ctypes, errno, fcntl, os, select, socket, struct, sys

D = sys.argv[1] + '/calls'
os.mkdir(D)
libc = ctypes.CDLL(None, use_errno=True)

def said(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]

def made(name, content=b''):
    with open(f'{D}/{name}', 'wb') as file:
        file.write(content)
    return os.open(f'{D}/{name}', os.O_RDWR)

def content(fd):
    return os.pread(fd, 1 << 20, 0)

data = bytes(range(256)) * 1000

# fallocate
fd = made('allocated', data[:10_000])
def allocate(mode, offset, length):
    answer = libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length))
    return 0 if answer == 0 else errno.errorcode[ctypes.get_errno()]
KEEP, PUNCH, COLLAPSE, ZERO = 1, 2, 8, 16
for step in [(0, 5000, 10_000), (KEEP, 0, 100_000), (PUNCH | KEEP, 100, 5000), (PUNCH, 0, 10), (ZERO, 9000, 20_000),
             (ZERO | KEEP, 0, 50), (PUNCH | KEEP, 20_000, 1 << 40), (0, -1, 5), (0, 0, 0), (0, 5, -1)]:
    print('fallocate', step, allocate(*step), os.fstat(fd).st_size, hash(tuple(content(fd))))
for offset, length, flags in (0, 10, 0), (0, 0, 7), (5, 1 << 40, 7), (0, 10, 8), (0, 10, -1), (-1, 10, 7), (1 << 62, 1 << 62, 7), (0, -1, 7):
    answer = libc.sync_file_range(fd, ctypes.c_long(offset), ctypes.c_long(length), flags)
    print('sync_file_range', offset, length, flags, 0 if answer == 0 else errno.errorcode[ctypes.get_errno()])
print('posix_fallocate', said(os.posix_fallocate, fd, 0, 50_000), os.fstat(fd).st_size)
print('read only', said(os.posix_fallocate, os.open(f'{D}/allocated', os.O_RDONLY), 0, 10))

# close_range
fds = [os.open(f'{D}/allocated', os.O_RDONLY) for _ in range(4)]
for flags, first, last in (4, 0, 1), (0, 1, 2), (2, 3, 3), (8, 0, 0), (0, 2, 1):
    answer = libc.close_range(fds[first], fds[last], flags)
    print('close_range', answer, [(said(fcntl.fcntl, fd, fcntl.F_GETFD), said(os.read, fd, 0)) for fd in fds])
others = [os.open('/dev/null', os.O_RDONLY) for _ in range(3)]
print('numbers come again', others == fds[1:], [os.read(fd, 10) for fd in others], os.fstat(others[0]).st_size)
for other in others:
    os.close(other)

# sendfile, splice, copy_file_range
source, target = made('source', data), made('target')
outside = os.memfd_create('outside')
os.write(outside, data)
print('sendfile', os.sendfile(target, source, 10, 1000), content(target) == data[10:1010], os.lseek(source, 0, 1))
print('sendfile', os.sendfile(target, source, None, 5000), os.lseek(source, 0, 1), os.lseek(target, 0, 1))
print('sendfile', os.sendfile(outside, source, 0, 100), os.sendfile(target, outside, 5, 100), os.lseek(target, 0, 1))
a, b = socket.socketpair()
print('sendfile', os.sendfile(a.fileno(), source, 0, 300), b.recv(1000) == data[:300])
print('sendfile', os.sendfile(target, source, len(data), 10), said(os.sendfile, target, 999, 0, 10))
os.ftruncate(target, 0)
os.lseek(target, 0, 0)
if hasattr(os, 'copy_file_range'):
    copy = os.copy_file_range
    print('copy', copy(source, target, 100, 5, 7), os.lseek(target, 0, 1), content(target))
    os.lseek(source, 0, 0)
    print('copy', copy(source, target, 50_000), os.lseek(source, 0, 1), os.lseek(target, 0, 1))
    print('copy', content(target)[:50_000] == data[:50_000], said(copy, source, source, 10, 0, 5))
if hasattr(os, 'splice'):
    r, w = os.pipe()
    os.lseek(source, 0, 0)
    print('splice', os.splice(source, w, 3000) > 0, len(os.read(r, 3000)) > 0, os.splice(source, w, 10, offset_src=5), os.read(r, 10))
    os.write(w, b'from the pipe')
    print('splice', os.splice(r, target, 4, offset_dst=2), content(target)[:8], os.splice(r, target, 100), said(os.splice, source, target, 5))

# poll, select, epoll
r, w = os.pipe()
poll = select.poll()
poll.register(source, select.POLLIN | select.POLLOUT | select.POLLPRI)
poll.register(r, select.POLLIN)
print('poll', sorted(event for _, event in poll.poll()))
os.write(w, b'x')
print('poll', sorted(event for _, event in poll.poll()))
print('poll', select.poll().poll(0))
ready = select.select([source, r], [target, w], [source, r])
print('select', [len(one) for one in ready], source in ready[0], target in ready[1])
os.read(r, 1)
print('select', [len(one) for one in select.select([source, r], [], [])], select.select([], [], [source], 0.01))
print('epoll', said(select.epoll().register, source))

# Descriptors
print('dup2', os.dup2(source, 50), content(50) == data, fcntl.fcntl(50, fcntl.F_GETFL) & os.O_ACCMODE)
os.close(50)
print('closed', said(os.read, 50, 1), said(os.fstat, 50))
print('close_range', libc.close_range(50, 60, 0) if hasattr(libc, 'close_range') else 0)

# How many descriptors there are; which are alike
count = lambda: os.stat('/proc/self/fd').st_size
before = count()
more = [os.open(D, os.O_RDONLY) for _ in range(3)]
print('descriptors', count() - before, count() in (0, len(os.listdir('/proc/self/fd')) - 1))
one, other, alike = made('one'), made('other'), None
alike = os.dup(one)
def kcmp(*fds):
    return libc.syscall(312, os.getpid(), os.getpid(), 0, *fds)
print('kcmp', kcmp(one, alike), kcmp(one, one), kcmp(one, other) in (1, 2), kcmp(one, more[0]) in (1, 2), kcmp(one, 0) in (1, 2))
F_DUPFD_QUERY = 1027
print('alike', said(fcntl.fcntl, one, F_DUPFD_QUERY, alike), said(fcntl.fcntl, one, F_DUPFD_QUERY, other), said(fcntl.fcntl, one, F_DUPFD_QUERY, 0), said(fcntl.fcntl, one, F_DUPFD_QUERY, 999))
print('leases', said(fcntl.fcntl, one, fcntl.F_GETLEASE), said(fcntl.fcntl, one, fcntl.F_SETLEASE, fcntl.F_UNLCK), said(fcntl.fcntl, one, fcntl.F_NOTIFY, 1))
print('hints', [fcntl.fcntl(one, 1036, struct.pack('Q', hint)) != b'' if hint < 6 else said(fcntl.fcntl, one, 1036, struct.pack('Q', hint)) for hint in (0, 5, 6)])
print('seals', said(fcntl.fcntl, one, 1034), said(fcntl.fcntl, one, fcntl.F_SETSIG if hasattr(fcntl, 'F_SETSIG') else 10, 0), said(fcntl.fcntl, one, 11))
bad = struct.pack('qqqq', 0, 1 << 31, 0, 0)
print('times', [(libc.utimensat(*call), ctypes.get_errno()) for call in ((-100, f'{D}/none'.encode(), bad, 0), (-100, f'{D}/one'.encode(), bad, 0), (one, None, bad, 0), (999, None, bad, 0), (one, None, None, 0x100))])
print('no path', [(call(*arguments), ctypes.get_errno()) for call, arguments in ((libc.fchownat, (one, None, 1, 1, 0)), (libc.fchmodat, (one, None, 0o777, 0)), (libc.faccessat, (one, None, 0, 0)))], oct(os.fstat(one).st_mode), os.fstat(one).st_uid)

# Requests that files answer
fd, folder = made('asked', b'x' * 5000), os.open(D, os.O_RDONLY)
def asked(fd, request, before=b'', after=8):
    room = ctypes.create_string_buffer(before.ljust(after, b'\0'), after)
    answer = libc.ioctl(fd, ctypes.c_ulong(request), room)
    return 0 if answer == 0 else errno.errorcode[ctypes.get_errno()], room.raw.hex()
FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FIOASYNC, FIOQSIZE, FIGETBSZ = 0x541b, 0x5421, 0x5450, 0x5451, 0x5452, 0x5460, 2
for place in (0, 4990, 5000, 7000):
    os.lseek(fd, place, 0)
    print('ioctl', asked(fd, FIONREAD))
for one in (fd, folder):
    print('ioctl', asked(one, FIGETBSZ), asked(one, FIOASYNC), asked(one, FIOASYNC, b'\1'), asked(one, 0x5401), asked(one, 0x80081272))
    for on in (b'\1', b'\0'):
        print('ioctl', asked(one, FIONBIO, on), fcntl.fcntl(one, fcntl.F_GETFL) & os.O_NONBLOCK != 0)
    for request in (FIONCLEX, FIOCLEX):
        print('ioctl', asked(one, request), fcntl.fcntl(one, fcntl.F_GETFD))
print('ioctl', asked(folder, FIONREAD)[0], asked(fd, FIOQSIZE)[0], libc.ioctl(fd, ctypes.c_ulong(FIONREAD), None), asked(os.open(D, os.O_PATH), FIGETBSZ)[0])

# The older getdents
os.mkdir(f'{D}/list')
for name in ('one', 'a name that is longer', 'x' * 200):
    open(f'{D}/list/{name}', 'w').close()
fd = os.open(f'{D}/list', os.O_RDONLY | os.O_DIRECTORY)
buffer = ctypes.create_string_buffer(4096)
length, at, names = libc.syscall(78, fd, buffer, 4096), 0, []
while at < length:
    size = struct.unpack_from('H', buffer, at + 16)[0]
    names.append((buffer.raw[at + 18:at + size - 1].split(b'\0')[0], buffer.raw[at + size - 1]))
    at += size
print('getdents', sorted(names))

# Private mappings that reach past the end: the rest of the last page is zeros, what follows a bus error.
libc.mmap.restype = ctypes.c_void_p
def ends(address, change=None):
    child = os.fork()
    if child == 0:
        if change is None:
            ctypes.c_ubyte.from_address(address).value
        else:
            ctypes.c_ubyte.from_address(address).value = change
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
for size, offset, length in (10, 0, 4096), (10, 0, 4097), (4096, 0, 9000), (5000, 4096, 20_000), (0, 0, 100), (100, 8192, 100), (9000, 0, 5000):
    fd = made(f'mapped {size} {offset} {length}', data[:size])
    for protection in 1, 3:
        start = libc.mmap(None, ctypes.c_size_t(length), protection, 2, fd, ctypes.c_long(offset))
        pages = range(0, length, 4096)
        print('mapped', size, offset, length, protection, [(ends(start + page), ends(start + page + 4095), ends(start + page, 7)) for page in pages])
        print([ctypes.string_at(start + page, 4096)[max(0, size - page - offset) - 4:][:12].hex() for page in pages if page + offset < size])

# What is done to a private mapping later
libc.mremap.restype = ctypes.c_void_p
fd = made('kept', data[:20_000])
start = libc.mmap(None, ctypes.c_size_t(12_000), 3, 2, fd, ctypes.c_long(4096))
ctypes.memset(start, 7, 5000)
print('given back', ctypes.string_at(start, 4).hex(), libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(12_288), 4), ctypes.string_at(start, 4) == data[4096:4100])
print('page', ctypes.string_at(start + 12_000, 288) == data[16_096:16_384], libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(4096), 1), ends(start), ends(start, 1))
print('advised', [libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(8192), advice) for advice in (0, 1, 2, 3, 14)], libc.msync(ctypes.c_void_p(start), ctypes.c_size_t(8192), 4))
shrunk = libc.mremap(ctypes.c_void_p(start), ctypes.c_size_t(12_288), ctypes.c_size_t(4096), 0)
print('shrunk', shrunk == start, ends(start), ends(start + 4096), libc.munmap(ctypes.c_void_p(start), ctypes.c_size_t(4096)), ends(start))
last = made('last', data[:100])
start = libc.mmap(None, ctypes.c_size_t(100), 3, 2, last, 0)
grown = libc.mremap(ctypes.c_void_p(start), ctypes.c_size_t(4096), ctypes.c_size_t(8192), 1)
print('grown', ends(grown), ends(grown + 4096))

# A file's flags, what is known of its pages, and where it lies
def asked(fd, request, answer):
    room = ctypes.create_string_buffer(answer, 64)
    return libc.ioctl(fd, ctypes.c_ulong(request), room), ctypes.get_errno() if ctypes.set_errno(0) else 0, room.raw[:4].hex()
flagged = made('flagged', data[:10_000])
folder = os.open(D, os.O_RDONLY)
for fd in flagged, folder:
    print('flags', asked(fd, 0x80086601, b''), [asked(fd, 0x40086602, flags)[0] for flags in (b'\0\0\x08\0', b'\0\0\0\x80')])
    print('project', asked(fd, 0x801c581f, b'')[0], asked(fd, 0x401c5820, b'')[0])
for inside in 'lsattr -d', 'lsattr':
    print(os.popen(f'cd {D} && mkdir -p listed && touch listed/a && {inside} listed').read())
other = os.open('/tmp', os.O_TMPFILE | os.O_RDWR)
ctypes.set_errno(0); print('cloned', libc.ioctl(other, ctypes.c_ulong(0x40049409), flagged), errno.errorcode[ctypes.get_errno()] in ('EXDEV', 'ENOTSUP'))
for first, length in (0, 0), (4096, 4096), (5000, 100), (0, 1 << 40), (20_000, 0):
    cached = ctypes.create_string_buffer(40)
    libc.syscall(451, flagged, struct.pack('QQ', first, length), cached, 0)
    print('cached', first, length, struct.unpack('Q', cached[:8]))

# Attributes by the calls that take a directory
def below(number, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(number, *arguments)
    return answer if answer >= 0 else errno.errorcode[ctypes.get_errno()]
def given(value, room, flags=0):
    return struct.pack('QII', ctypes.addressof(value), room, flags)
os.symlink('flagged', f'{D}/link')
value, room = ctypes.create_string_buffer(b'content'), ctypes.create_string_buffer(100)
print('set', [below(463, folder, name, at, b'user.a', given(value, 7, flags), 16) for name, at, flags in ((b'flagged', 0, 1), (b'flagged', 0, 1), (b'link', 0, 2), (b'link', 0x100, 0), (b'none', 0, 0), (b'', 0, 0), (b'', 0x1000, 0), (b'flagged', 1, 0), (b'flagged', 0, 4))])
print('get', [(below(464, folder, name, at, b'user.a', given(room, length), 16), room.value) for name, at, length in ((b'flagged', 0, 100), (b'link', 0, 100), (b'link', 0x100, 100), (b'flagged', 0, 3), (b'flagged', 0, 0), (b'', 0x1000, 100))])
print('file', below(464, flagged, b'', 0x1000, b'user.a', given(room, 100), 16), below(464, flagged, b'', 0x1000, b'user.a', given(room, 100), 24), below(464, flagged, None, 0x1000, b'user.a', given(room, 100), 16))
print('list', below(465, folder, b'flagged', 0, room, 100), room.raw[:7], below(465, flagged, b'', 0x1000, room, 3), below(465, -100, f'{D}/link'.encode(), 0, room, 100))
print('remove', [below(466, folder, b'flagged', 0, b'user.a') for _ in range(2)], below(466, folder, b'', 0x1000, b'user.a'))

# A path that a loop of links makes longer each time
os.symlink(f'{D}/grows/{"n" * 200}', f'{D}/grows')
print('loop', said(os.stat, f'{D}/grows/x'), said(os.open, f'{D}/grows', os.O_RDONLY))
long_path, long_name = f'{D}/{"./" * 2200}flagged'.encode(), b'user.' + b'n' * 251
print('long', below(191, long_path, long_name, room, 9), below(188, long_path, long_name, room, 9, 0), below(191, long_path, b'user.a', room, 9))
print('length', [said(lambda path: os.stat(path).st_size > 0, (D + '/' + './' * 3000)[:length]) for length in (4095, 4096)])
