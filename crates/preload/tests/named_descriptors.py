# Calls on paths that name a descriptor, in directory sys.argv[1]. Prints nothing that varies.
import ctypes, errno, os, resource, shutil, socket, stat, subprocess, sys

D = sys.argv[1] + '/calls'
os.mkdir(D)
libc = ctypes.CDLL(None, use_errno=True)
os.umask(0o022)

def said(call, *arguments, **more):
    try:
        return call(*arguments, **more)
    except OSError as error:
        return errno.errorcode[error.errno]

def path(fd):
    return f'/proc/self/fd/{fd}'

name = D + '/file'
with open(name, 'w') as file:
    file.write('0123456789')
os.mkdir(D + '/folder')
plain, only = os.open(name, os.O_RDONLY), os.open(name, os.O_PATH)
folder, folder_only = os.open(D + '/folder', os.O_RDONLY), os.open(D + '/folder', os.O_PATH)
for kind, fd in ('plain', plain), ('path', only), ('folder', folder), ('folder path', folder_only):
    for place in path(fd), f'/dev/fd/{fd}', f'/proc/thread-self/fd/{fd}', f'/proc/{os.getpid()}/fd/{fd}', f'//proc/./self//fd/{fd}':
        os.chmod(place, 0o700)
        os.chmod(place, 0o610 | fd % 8)
        print(kind, oct(os.stat(place).st_mode & 0o7777), oct(os.fstat(fd).st_mode & 0o7777), stat.S_ISLNK(os.lstat(place).st_mode))
    place = path(fd)
    os.chown(place, 12, 13)
    os.utime(place, (100, 200))
    shown = os.stat(place)
    print(kind, shown.st_uid, shown.st_gid, shown.st_atime, shown.st_mtime, os.path.samestat(shown, os.fstat(fd)))
    print(kind, said(os.truncate, place, 5), said(os.truncate, place, -1), os.access(place, os.R_OK), os.access(place, os.X_OK))
    print(kind, said(os.access, place, 64), os.readlink(place).replace(D, 'D'), os.path.realpath(place).replace(D, 'D'))
    print(kind, libc.linkat(-100, place.encode(), -100, f'{D}/link {kind}'.encode(), 0x400), os.fstat(fd).st_nlink, said(os.getxattr, place, 'user.none') in ('ENOTSUP', 'ENODATA'))
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDONLY | os.O_NOFOLLOW,
                  os.O_DIRECTORY, os.O_PATH, os.O_RDONLY | os.O_APPEND, os.O_RDWR | os.O_TRUNC):
        new = said(os.open, place, flags, 0o600)
        if isinstance(new, int):
            print(kind, flags, os.fstat(new).st_size if 'folder' not in kind else '', said(os.read, new, 3), said(os.write, new, b'abcdef'))
            os.close(new)
        else:
            print(kind, flags, new)
    print(kind, said(os.unlink, place) in ('EPERM', 'EACCES'), said(os.mkdir, place), said(os.symlink, 'x', place), said(os.rmdir, place) is not None)
    print(kind, said(os.open, place + '/', os.O_WRONLY), said(os.stat, place + '/x'), said(os.statvfs, place) and 'statvfs')

# What there is
listings = '/proc/self/fd', '/dev/fd', '/proc/thread-self/fd', f'/proc/{os.getpid()}/fd/', '/proc/self/fdinfo', f'/proc/self/task/{os.getpid()}/fd', '/proc/self/task/../fdinfo'
for listing in listings:
    print(listing.replace(str(os.getpid()), 'PID'), sorted(map(int, os.listdir(listing))))
descriptor = os.open('/proc/self/fd', os.O_RDONLY)
print(sorted(map(int, os.listdir(descriptor))))
raw = ctypes.create_string_buffer(24)
seen = 0
os.lseek(descriptor, 0, os.SEEK_SET)
while libc.syscall(217, descriptor, raw, 24) > 0:
    seen += 1
print(seen)
# Behind descriptors that are not shown.
last = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 1
os.dup2(descriptor, last)
os.lseek(descriptor, 0, os.SEEK_SET)
names = set()
raw = ctypes.create_string_buffer(32)
while libc.syscall(217, descriptor, raw, 32) > 0:
    names.add(raw.raw[19:].split(b'\0')[0])
print('last', str(last).encode() in names)
os.close(last)
os.close(descriptor)
print(subprocess.run(['sh', '-c', 'cd /proc/self/fd; echo *; ls /proc/self/fd; exec 5</dev/null; echo /dev/fd/*; test -e /dev/fd/5 && echo five'], capture_output=True, cwd=D).stdout)
for form in '/proc/self/fd/%d', '/dev/fd/%d', '/proc/self/fdinfo/%d':
    found = [number for number in range(30, 2000) if os.path.lexists(form % number)]
    print(form, found, {said(call, form % number) for number in range(30, 2000) if number not in found for call in (os.stat, os.readlink, os.listdir, os.unlink, lambda path: os.open(path, os.O_RDWR))})

# Below a directory
inside = said(os.open, path(folder) + '/new', os.O_RDWR | os.O_CREAT)
print(os.write(inside, b'made'), os.listdir(D + '/folder'), os.listdir(path(folder)), os.listdir(path(folder) + '/'))
os.rename(path(folder) + '/new', f'/dev/fd/{folder_only}/other')
print(os.listdir(D + '/folder'), os.readlink(path(inside)).replace(D, 'D').replace('other', 'new'))
os.chdir(path(folder))
print(os.getcwd().replace(D, 'D'), os.listdir('.'), said(os.chdir, path(plain)))
os.chdir('/')

# A link to what is open, whose name is nowhere: linkat with AT_SYMLINK_FOLLOW, and with AT_EMPTY_PATH
for new in b'', None:
    for old, flags in (path(plain).encode(), 0x400), (b'', 0x1000):
        libc.linkat(plain, old, -100, new, flags)
        print(errno.errorcode[ctypes.get_errno()])

# A link's own descriptor; a file without a name
os.symlink('nowhere', D + '/link')
link = os.open(D + '/link', os.O_PATH | os.O_NOFOLLOW)
print(stat.S_ISLNK(os.stat(path(link)).st_mode), said(os.open, path(link), os.O_RDONLY), os.readlink(path(link)).replace(D, 'D'))
os.unlink(D + '/folder/other')
again = os.open(path(inside), os.O_RDWR)
print(os.read(again, 10), os.fstat(again).st_nlink, os.readlink(path(again)).endswith(' (deleted)'))
os.close(os.open(path(inside), os.O_RDWR | os.O_TRUNC))
print(os.fstat(again).st_size)

# A program
shutil.copy('/bin/echo', D + '/echo')
program = os.open(D + '/echo', os.O_RDONLY)
for flags in os.O_RDONLY, os.O_PATH:
    program = os.open(D + '/echo', flags)
    if os.fork() == 0:
        os.execv(path(program), ['echo', 'executed'])
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
print(said(os.execv, path(plain), ['file']))

# A program that runs, and one that is written
running = shutil.copy(shutil.which('cat'), D + '/cat')
program, only = os.open(running, os.O_RDONLY), os.open(running, os.O_PATH)
child = subprocess.Popen([running], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdin.write(b'x')
child.stdin.flush()
child.stdout.read(1)
size = os.stat(running).st_size
for fd in program, only:
    for flags in os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC, os.O_PATH | os.O_RDWR:
        new = said(os.open, path(fd), flags)
        print(flags, new if isinstance(new, str) else os.close(new))
    print(said(os.truncate, path(fd), 9), os.stat(running).st_size == size)
child.stdin.close()
child.wait()
new = os.open(path(program), os.O_RDWR)
for command in running, path(program), path(only), path(new), '/dev/stdin':
    print(said(subprocess.run, [command], pass_fds=(program, only, new), stdin=new))
os.close(new)

# Named pipes
os.mkfifo(D + '/pipe', 0o640)
only = os.open(D + '/pipe', os.O_PATH)
print([said(os.open, path(only), flags) for flags in (os.O_WRONLY | os.O_NONBLOCK, os.O_RDONLY | os.O_DIRECTORY, os.O_RDONLY | os.O_NOFOLLOW)])
reader = os.open(path(only), os.O_RDONLY | os.O_NONBLOCK | os.O_TRUNC)
writer = os.open(path(only), os.O_WRONLY | os.O_APPEND)
print(os.write(writer, b'through it'), os.read(reader, 100), stat.S_ISFIFO(os.stat(path(reader)).st_mode), said(os.truncate, path(only), 3))
again = os.open(path(reader), os.O_WRONLY)
print(os.write(again, b'and back'), os.read(reader, 100))
for fd in reader, writer, again:
    os.close(fd)
if os.fork() == 0:
    os.write(os.open(path(only), os.O_WRONLY), b'when it is there')
    os._exit(0)
with open(path(only)) as pipe:
    print(pipe.read())
os.wait()
server = socket.socket(socket.AF_UNIX)
server.bind(D + '/socket')
only_socket = os.open(D + '/socket', os.O_PATH)
print([said(os.open, path(only_socket), flags) for flags in (os.O_RDONLY, os.O_RDWR | os.O_NONBLOCK)])
os.chmod(path(only), 0o604)

# Another user: the rights are asked again
os.chown(name, 0, 0)
os.chmod(name, 0o604)
os.chmod(D + '/folder', 0o700)
sys.stdout.flush()
if os.fork() == 0:
    # The session is the child's while it may still have one.
    os.stat(name)
    os.setgroups([])
    os.setgid(1234)
    os.setuid(1234)
    for flags in os.O_RDONLY, os.O_RDWR, os.O_WRONLY, os.O_TRUNC, os.O_PATH, os.O_NOATIME:
        print(flags, isinstance(said(os.open, path(plain), flags), int) or said(os.open, path(plain), flags))
    print(os.access(path(plain), os.R_OK), os.access(path(plain), os.W_OK), said(os.truncate, path(plain), 1))
    print(said(os.open, path(only), os.O_WRONLY | os.O_NONBLOCK), said(os.open, path(only), os.O_RDONLY | os.O_TRUNC | os.O_NONBLOCK))
    print(said(os.chmod, path(plain), 0o777), said(os.chmod, path(only), 0o777), said(os.chdir, path(folder)), said(os.listdir, path(folder)))
    sys.stdout.flush()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
