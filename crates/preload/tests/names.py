# Calls on names, open flags, ranges and offsets, in directory sys.argv[1]. Prints nothing that varies.
import ctypes, errno, fcntl, os, stat, struct, sys

TOP = sys.argv[1] + '/names'
os.mkdir(TOP)
os.chdir('/')
libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, EMPTY, FOLLOW, NOFOLLOW = -100, 0x1000, 0x400, 0x100

def call(number, *arguments):
    cast = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    answer = libc.syscall(ctypes.c_long(number), *cast)
    return answer if answer >= 0 else errno.errorcode[ctypes.get_errno()]

def said(function, *arguments, **named):
    try:
        return function(*arguments, **named)
    except OSError as error:
        return errno.errorcode[error.errno]

def at(name):
    return f'{TOP}/{name}'.encode()

def put(name, content=b'content'):
    with open(at(name), 'wb') as file:
        file.write(content)

def got(name):
    with open(at(name), 'rb') as file:
        return file.read()

def opened(answer):
    if isinstance(answer, int):
        os.close(answer)
        return 'opened'
    return answer

# renameat2
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
def rename(old, new, flags):
    return call(316, AT_FDCWD, at(old), AT_FDCWD, at(new), flags)
put('a', b'A'), put('b', b'B')
for name in ('d', 'd/sub', 'd/sub/deep', 'e'):
    os.mkdir(at(name))
print('exchange', rename('a', 'b', EXCHANGE), got('a'), got('b'), rename('a', 'none', EXCHANGE), rename('none', 'a', EXCHANGE))
print('exchange', rename('a', 'd/sub', EXCHANGE), sorted(os.listdir(at('d'))), os.stat(at('d')).st_nlink, os.stat(TOP).st_nlink, os.listdir(at('a')))
print('exchange', rename('a', 'd/sub', EXCHANGE), rename('d', 'd/sub/deep', EXCHANGE), rename('d/sub/deep', 'd', EXCHANGE))
print('exchange', rename('d/sub', 'e', EXCHANGE), os.stat(at('d/sub')).st_nlink, os.stat(at('e')).st_nlink, rename('d/sub', 'e', EXCHANGE))
print('no replace', rename('a', 'b', NOREPLACE), rename('a', 'c', NOREPLACE), rename('c', 'a', NOREPLACE), rename('a', 'a', NOREPLACE))
print('flags', rename('a', 'b', NOREPLACE | EXCHANGE), rename('a', 'b', 64), rename('a', 'b', EXCHANGE | WHITEOUT))

# O_TMPFILE
def unnamed(flags=os.O_RDWR, mode=0o666, where='d'):
    return said(os.open, at(where), os.O_TMPFILE | flags, mode)
fd = unnamed()
os.write(fd, b'x' * 5000)
found = os.fstat(fd)
print('unnamed', found.st_nlink, oct(found.st_mode), found.st_size, sorted(os.listdir(at('d'))))
print('unnamed', os.readlink(f'/proc/self/fd/{fd}').rsplit('/', 1)[0] == f'{TOP}/d', os.readlink(f'/proc/self/fd/{fd}').endswith(' (deleted)'))
print('named', call(265, AT_FDCWD, f'/proc/self/fd/{fd}'.encode(), AT_FDCWD, at('d/named'), FOLLOW), os.fstat(fd).st_nlink, len(got('d/named')))
print('named', call(265, fd, b'', AT_FDCWD, at('d/second'), EMPTY), os.fstat(fd).st_nlink)
os.unlink(at('d/named')), os.unlink(at('d/second'))
print('named', call(265, fd, b'', AT_FDCWD, at('d/third'), EMPTY), os.fstat(fd).st_nlink)
os.close(fd)
fd = unnamed(os.O_WRONLY)
print('named', call(265, fd, b'', AT_FDCWD, at('d/other'), EMPTY), call(265, fd, b'', AT_FDCWD, at('d/other'), EMPTY), call(265, fd, b'', AT_FDCWD, at('x'), 8))
os.close(fd), os.unlink(at('d/other'))
fd = unnamed(os.O_RDWR | os.O_EXCL)
print('exclusive', call(265, fd, b'', AT_FDCWD, at('d/never'), EMPTY))
os.close(fd)
print('unnamed', unnamed(os.O_RDONLY), unnamed(os.O_RDWR | os.O_CREAT), unnamed(where='a'), unnamed(where='none'))
print('unnamed', said(os.open, at('d'), 0o20000000 | os.O_RDWR))
child = os.fork()
if child == 0:
    os.write(unnamed(), b'left')
    os._exit(0)
os.waitpid(child, 0)
fd = unnamed()
if os.fork() == 0:
    os.write(fd, b'from the child')
    os._exit(call(265, fd, b'', AT_FDCWD, at('d/child'), EMPTY))
print('child', os.wait()[1], got('d/child'), os.fstat(fd).st_nlink)
os.close(fd)

# openat2
NO_XDEV, NO_MAGIC, NO_SYMLINKS, BENEATH, IN_ROOT, CACHED = 1, 2, 4, 8, 16, 32
def how(path, flags=0, resolve=0, mode=0, base=AT_FDCWD, size=24, tail=b''):
    path = path if isinstance(path, bytes) else path.encode()
    text = struct.pack('QQQ', flags, mode, resolve) + tail
    return opened(call(437, base, path, ctypes.create_string_buffer(text, max(size, len(text), 24)), size))
os.symlink('../a', at('d/up')), os.symlink('sub', at('d/in')), os.symlink('/a', at('d/absolute')), os.symlink('named', at('link'))
put('d/a', b'inner')
base = os.open(at('d'), os.O_RDONLY | os.O_DIRECTORY)
for resolve in (0, NO_XDEV, NO_MAGIC, NO_SYMLINKS, BENEATH, IN_ROOT, BENEATH | NO_SYMLINKS, BENEATH | IN_ROOT, 64):
    print('resolve', resolve, [how(path, resolve=resolve, base=base) for path in ('a', 'in', 'in/deep', 'up', '..', '../a', 'sub/../a', 'sub/../../a', 'none', '', '/a', 'a/x')],
          how('absolute', resolve=resolve, base=base) if resolve else '')
print('resolve', how('../../../a', resolve=IN_ROOT, base=base), how('/', resolve=IN_ROOT, base=base), how('in', os.O_PATH | os.O_NOFOLLOW, NO_SYMLINKS, base=base))
print('resolve', how('/etc/passwd', resolve=BENEATH, base=base), how('/etc/passwd', resolve=IN_ROOT, base=base), how('../x', os.O_CREAT | os.O_RDWR, BENEATH, 0o600, base))
print('make', how('new', os.O_CREAT | os.O_RDWR, BENEATH, 0o640, base), oct(os.stat(at('d/new')).st_mode))
print('magic', how(f'/proc/self/fd/{base}', resolve=NO_MAGIC), how(f'/proc/self/fd/{base}/a', resolve=NO_MAGIC), how(f'/proc/self/fd/{base}/a', resolve=NO_SYMLINKS), how(f'/proc/self/fd/{base}/a'))
print('cached', how('a', os.O_CREAT | os.O_RDWR, CACHED, 0o600, base), how('a', os.O_WRONLY | os.O_TRUNC, CACHED, 0, base), how('a', os.O_RDWR | os.O_TMPFILE, CACHED, 0o600, base))
print('size', how('a', base=base, size=16), how('a', base=base, size=0), how('a', base=base, size=32, tail=b'\0' * 8), how('a', base=base, size=32, tail=b'\0\0\0\1' * 2), how('a', base=base, size=8192))
print('flags', how('a', 1 << 40, base=base), how('a', 1 << 30, base=base), how('a', 0, mode=0o600, base=base), how('m', os.O_CREAT, mode=0o10000, base=base), how('a', os.O_PATH | os.O_RDWR, base=base), how('a', os.O_PATH | os.O_CREAT, mode=0o600, base=base))
print('flags', how('a', os.O_CREAT | os.O_DIRECTORY, mode=0o600, base=base), how('a', 3, base=base), call(437, base, b'a', 0, 24), how('a', base=1000))

# open flags
def flags(path, flags, mode=0o600):
    fd = said(os.open, at(path), flags, mode)
    if not isinstance(fd, int):
        return fd
    shown = oct(fcntl.fcntl(fd, fcntl.F_GETFL))
    os.close(fd)
    return shown
for name in ('O_RDONLY', 'O_WRONLY', 'O_RDWR', 'O_APPEND', 'O_NONBLOCK', 'O_DSYNC', 'O_SYNC', 'O_DIRECT', 'O_NOATIME', 'O_NOFOLLOW', 'O_CLOEXEC', 'O_PATH', 'O_TRUNC', 'O_CREAT', 'O_ASYNC', 'O_DIRECTORY'):
    value = getattr(os, name)
    print(name, flags('e/none', value), flags('b', value), flags('d', value), flags('d/up', value), flags('d/up', value | os.O_NOFOLLOW), flags('b', value | os.O_PATH))
print('both', flags('d', os.O_CREAT | os.O_DIRECTORY), flags('e/x', os.O_CREAT | os.O_DIRECTORY), flags('b', os.O_ACCMODE), flags('b', os.O_ACCMODE | os.O_TRUNC), flags('b', 1 << 30))
put('b', b'content of b')
fd = os.open(at('b'), os.O_ACCMODE)
print('neither', said(os.read, fd, 1), said(os.write, fd, b'x'), said(os.ftruncate, fd, 0), os.fstat(fd).st_size)
fd = os.open(at('b'), os.O_RDWR)
print('setfl', [(fcntl.fcntl(fd, fcntl.F_SETFL, one), oct(fcntl.fcntl(fd, fcntl.F_GETFL))) for one in (os.O_APPEND, os.O_NONBLOCK | os.O_SYNC, os.O_NOATIME | os.O_DIRECT, os.O_ASYNC, 0)])
print('control', said(fcntl.fcntl, fd, 1032), said(fcntl.fcntl, fd, 1031, 4096))

# O_PATH
path, folder, link = os.open(at('b'), os.O_PATH), os.open(at('d'), os.O_PATH), os.open(at('d/up'), os.O_PATH | os.O_NOFOLLOW)
print('path', os.fstat(path).st_size, stat.S_ISDIR(os.fstat(folder).st_mode), stat.S_ISLNK(os.fstat(link).st_mode), os.readlink('', dir_fd=link), said(os.readlink, '', dir_fd=path))
print('path', [said(function, path, *more) for function, *more in ((os.read, 1), (os.write, b'x'), (os.pread, 1, 0), (os.pwrite, b'x', 0), (os.lseek, 0, 0), (os.fsync,), (os.fdatasync,),
      (os.ftruncate, 1), (os.fchmod, 0o600), (os.fchown, -1, -1), (os.posix_fallocate, 0, 1), (os.posix_fadvise, 0, 0, 0), (fcntl.flock, fcntl.LOCK_SH), (fcntl.fcntl, fcntl.F_SETFL, 0), (os.listdir,))])
print('path', call(306, path), call(277, path, 0, 0, 0), call(187, path, 0, 10), call(285, path, 0, 0, 10), call(326, path, 0, fd, 0, 1, 0), call(40, fd, path, 0, 1), call(16, path, 0x541b, 0), call(217, folder, ctypes.create_string_buffer(100), 100))
buffer = ctypes.create_string_buffer(256)
print('path', call(138, path, ctypes.create_string_buffer(256)), call(262, path, b'', buffer, EMPTY), call(268, path, b'', 0), call(452, path, b'', 0o640, EMPTY), oct(os.fstat(path).st_mode), call(260, path, b'', -1, -1, EMPTY), call(439, path, b'', 4, EMPTY))
print('path', call(280, path, b'', 0, EMPTY), call(280, path, 0, 0, 0), call(265, path, b'', AT_FDCWD, at('hard'), EMPTY), os.fstat(path).st_nlink, opened(call(257, folder, b'a', 0)), opened(call(257, path, b'a', 0)))
print('path', said(os.fchdir, folder), os.getcwd().replace(TOP, ''), said(os.fchdir, path), said(os.stat, 'a') == os.stat(at('d/a')), said(os.chdir, '/'))
print('path', os.dup2(path, 60), os.fstat(60).st_size, said(os.read, 60, 1), os.close(60), opened(said(os.open, f'/proc/self/fd/{path}', os.O_RDWR)), oct(fcntl.fcntl(path, fcntl.F_GETFL)))

# Flags of other calls
stx = ctypes.create_string_buffer(256)
print('flags', call(332, AT_FDCWD, at('b'), 0x6000, 0x7ff, stx), call(332, AT_FDCWD, at('b'), 0, 1 << 31, stx), call(332, AT_FDCWD, at('b'), 0x8000, 0x7ff, stx), call(332, AT_FDCWD, at('b'), NOFOLLOW | 0x800 | 0x2000, 0x7ff, stx), call(332, path, 0, EMPTY, 0x7ff, stx))
print('flags', call(262, AT_FDCWD, at('b'), buffer, 1), call(263, AT_FDCWD, at('e'), 1), call(268, AT_FDCWD, at('b'), 0o640), call(452, AT_FDCWD, at('b'), 0o640, 1), call(452, AT_FDCWD, at('link'), 0o640, NOFOLLOW), call(260, AT_FDCWD, at('b'), -1, -1, 1), call(439, AT_FDCWD, at('b'), 4, 1), call(439, AT_FDCWD, at('b'), 8, 0), call(439, AT_FDCWD, at('link'), 0, NOFOLLOW))
def times(*four):
    return ctypes.create_string_buffer(struct.pack('qqqq', *four))
NOW, OMIT = (1 << 30) - 1, (1 << 30) - 2
def utimens(where, name, values, flags=0):
    return call(280, where, name, values, flags)
print('times', utimens(AT_FDCWD, at('b'), times(1, 2, 3, 4)), os.stat(at('b')).st_mtime_ns, utimens(AT_FDCWD, at('b'), times(9, 9, 0, OMIT)), os.stat(at('b')).st_atime_ns, os.stat(at('b')).st_mtime_ns)
print('times', utimens(AT_FDCWD, at('none'), times(0, OMIT, 0, OMIT)), utimens(AT_FDCWD, at('none'), times(0, OMIT, 0, NOW)), utimens(AT_FDCWD, at('b'), times(0, 1 << 30, 0, 0)), utimens(AT_FDCWD, at('b'), times(0, NOW, 5, 6)), os.stat(at('b')).st_mtime_ns)
print('times', utimens(fd, 0, times(7, 7, 8, 8)), os.fstat(fd).st_mtime_ns, utimens(fd, 0, times(7, 7, 8, 8), EMPTY), utimens(AT_FDCWD, at('b'), times(7, 7, 8, 8), 1), utimens(fd, b'', times(1, 1, 2, 2), EMPTY), os.fstat(fd).st_mtime_ns, utimens(AT_FDCWD, at('link'), times(1, 1, 2, 2), NOFOLLOW), os.lstat(at('link')).st_mtime_ns)
print('advice', [call(221, fd, 0, 0, one) for one in range(8)], call(221, fd, 0, -1, 0), call(187, fd, 0, 10), call(187, base, 0, 10), call(187, os.open(at('b'), os.O_WRONLY), 0, 1))
print('sync', call(277, fd, 0, 0, 7), call(277, fd, -1, 0, 0), call(277, fd, 0, -1, 0), call(277, fd, 5, 1 << 62, 8), call(277, fd, 0, 10, 0), call(306, fd), os.sync(), os.fdatasync(fd))
print('close_range', call(436, 900, 910, 8), call(436, 910, 900, 0))
first, second = os.dup2(fd, 900), os.dup2(fd, 901)
print('close_range', call(436, 900, 900, 4), fcntl.fcntl(900, fcntl.F_GETFD), fcntl.fcntl(901, fcntl.F_GETFD), call(436, 900, 901, 2), said(os.fstat, 900), said(os.fstat, 901))

# Vectors
put('v', b'0123456789')
fd = os.open(at('v'), os.O_RDWR)
HIPRI, DSYNC, SYNC, NOWAIT, APPEND, NOAPPEND = 1, 2, 4, 8, 16, 32
def vector(number, data, offset, flags, fd=fd):
    bytes = ctypes.create_string_buffer(data, len(data))
    return call(number, fd, ctypes.create_string_buffer(struct.pack('QQ', ctypes.addressof(bytes), len(data))), 1, offset, 0, flags), bytes.raw
print('read', [vector(327, b'....', 2, one) for one in (0, HIPRI, DSYNC | SYNC, NOWAIT, APPEND)], vector(327, b'..', -1, 0), os.lseek(fd, 0, 1), vector(327, b'..', -2, 0), vector(327, b'..', 0, 1 << 20))
print('write', vector(328, b'AB', 2, DSYNC), vector(328, b'END', 0, APPEND), os.lseek(fd, 0, 1), vector(328, b'X', -1, APPEND), os.lseek(fd, 0, 1), vector(328, b'Y', 0, 1 << 20), vector(328, b'Y', 0, APPEND | NOAPPEND), vector(328, b'Y', -3, 0), got('v'))
os.close(fd)
fd = os.open(at('v'), os.O_RDWR | os.O_APPEND)
print('append', os.pwrite(fd, b'Z', 0), vector(328, b'N', 1, NOAPPEND, fd), vector(328, b'P', 1, 0, fd), got('v'))
fd = os.open(at('v'), os.O_RDWR)
print('vectors', os.preadv(fd, [bytearray(3), bytearray(4)], 1), os.pwritev(fd, [b'p', b'', b'q'], 3), os.readv(fd, [bytearray(2), bytearray(2)]), os.writev(fd, [b'r', b's']), got('v'), call(19, fd, 0, 1025), call(295, fd, 0, 0, -1, 0))

# copy_file_range and sendfile
put('source', bytes(range(250)) * 40)
source, target = os.open(at('source'), os.O_RDWR), os.open(at('target'), os.O_RDWR | os.O_CREAT)
appending, reading, writing = os.open(at('v'), os.O_WRONLY | os.O_APPEND), os.open(at('v'), os.O_RDONLY), os.open(at('v'), os.O_WRONLY)
copy = os.copy_file_range
print('copy', copy(source, target, 1 << 30, 100, 50), os.fstat(target).st_size, copy(source, target, 10, 10_000, 0), copy(source, target, 10, 20_000, 0), copy(source, target, 10, 9_995, 3))
print('copy', [said(copy, *one) for one in ((source, source, 100, 0, 99), (source, source, 100, 9_950, 9_990), (source, source, 100, 0, 100), (writing, target, 1), (source, reading, 1), (source, appending, 1), (base, target, 1), (source, path, 1))], call(326, source, 0, target, 0, 1, 1))
print('send', [said(os.sendfile, *one) for one in ((target, source, 0, 10), (appending, source, 0, 1), (target, writing, 0, 1), (reading, source, 0, 1), (target, source, -1, 1))])

# Ranges
KEEP, PUNCH, COLLAPSE, ZERO, INSERT, UNSHARE = 1, 2, 8, 16, 32, 64
K = 4096
pages = b''.join(bytes([65 + page]) * K for page in range(8)) + b'tail'
put('ranges', pages)
fd = os.open(at('ranges'), os.O_RDWR)
def allocate(mode, offset, length):
    return call(285, fd, mode, offset, length)
def shape():
    size, at, runs, content = os.fstat(fd).st_size, 0, [], os.pread(fd, 1 << 20, 0)
    for place in range(0, size, K):
        page = content[place:place + K]
        runs.append((page[:1] + page[-1:]).replace(b'\0', b'.').decode())
    return size, ' '.join(runs)
print('shape', shape())
for step in ((PUNCH | KEEP, K, 2 * K), (ZERO, 4 * K + 100, 50), (ZERO | KEEP, 8 * K, 10 * K), (COLLAPSE, 2 * K, 2 * K), (INSERT, K, 3 * K), (COLLAPSE, 0, K), (INSERT, 0, K), (PUNCH | KEEP, 0, 1 << 40),
             (ZERO, 20 * K, 5), (COLLAPSE, 0, 100), (INSERT, 5, K), (COLLAPSE, K, 1 << 30), (INSERT, 1 << 30, K), (INSERT, K, (1 << 63) - 2 * K), (COLLAPSE | KEEP, 0, K), (INSERT | KEEP, 0, K), (PUNCH, 0, K), (COLLAPSE | INSERT, 0, K), (UNSHARE, 0, K), (128, 0, K), (1 << 20, 0, K), (128, -1, 1)):
    print('fallocate', step, allocate(*step), shape())
print('fallocate', call(285, reading, 0, 0, 1), call(285, path, 0, 0, 1), call(285, base, 0, 0, 1))

# Holes
put('holes', b'')
fd = os.open(at('holes'), os.O_RDWR)
os.pwrite(fd, b'x' * 100, 3 * K + 50), os.pwrite(fd, b'y' * (2 * K), 6 * K), os.ftruncate(fd, 12 * K + 7)
def seek(offset, whence):
    answer = said(os.lseek, fd, offset, whence)
    return answer if not isinstance(answer, int) or answer % K else f'{answer // K}K'
for place in (0, 1, K, 3 * K, 3 * K + 49, 3 * K + 60, 4 * K - 1, 4 * K, 7 * K + 5, 8 * K, 12 * K + 6, 12 * K + 7, 20 * K, -1):
    print('seek', place, seek(place, os.SEEK_DATA), seek(place, os.SEEK_HOLE))
print('seek', seek(5, 5), seek(-1, 0), seek(-1, 2), seek(0, 1))
print('blocks', os.fstat(fd).st_blocks)
