# Open files sent to other processes, in directory sys.argv[1]. Prints nothing that varies.
import array, ctypes, errno, fcntl, multiprocessing.connection, multiprocessing.reduction as reduction, os, signal, socket, struct, subprocess, sys

D = sys.argv[1] + '/passing'
# Nobody waits for what will not come.
signal.alarm(60)
libc = ctypes.CDLL(None, use_errno=True)

def said(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]

def receive(sock, room=32, flags=0, size=100):
    data, control, got, _ = sock.recvmsg(size, socket.CMSG_SPACE(4 * room), flags)
    fds = []
    for level, kind, content in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds += array.array('i', content[:len(content) // 4 * 4])
    return data, fds, got & ~socket.MSG_CMSG_CLOEXEC

def send(sock, data, *fds):
    return sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))])

# What other programs do, each of its own: started anew, with a socket as descriptor 0.
if len(sys.argv) > 2:
    sock = socket.socket(fileno=0)
    if sys.argv[2] == 'read':
        data, (fd,), _ = receive(sock)
        print('  receiver', data, os.read(fd, 5), os.fstat(fd).st_nlink, fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE, flush=True)
        os.lseek(fd, 1, os.SEEK_CUR)
        sock.send(b'read')
    elif sys.argv[2] == 'write':
        _, fds, _ = receive(sock)
        print('  receiver', [os.write(fd, b'from the receiver;') for fd in fds], flush=True)
        sock.send(b'written')
    elif sys.argv[2] == 'send':
        fd = os.open(D + '/gone', os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.write(fd, b'of a sender that is gone')
        os.unlink(D + '/gone')
        os.lseek(fd, 5, os.SEEK_SET)
        send(sock, b'letter', fd)
    elif sys.argv[2] == 'on':
        # To a child by fork, which executes another that sends it back.
        data, (fd,), _ = receive(sock)
        os.set_inheritable(fd, True)
        child = os.fork()
        if child == 0:
            os.read(fd, 2)
            os.execv(sys.executable, [sys.executable, sys.argv[0], sys.argv[1], 'back', str(fd)])
        os.waitpid(child, 0)
        print('  receiver', os.read(fd, 3), flush=True)
    elif sys.argv[2] == 'back':
        fd = int(sys.argv[3])
        print('  executed', os.read(fd, 2), flush=True)
        send(sock, b'back', fd)
    sys.exit()

os.mkdir(D)

def other(work, sock, wait=True):
    sys.stdout.flush()
    program = subprocess.Popen([sys.executable, sys.argv[0], sys.argv[1], work], stdin=sock)
    return program.wait() if wait else program

def pair(kind=socket.SOCK_STREAM):
    return socket.socketpair(socket.AF_UNIX, kind)

def made(name, content=b'0123456789abcdefghij', flags=0):
    with open(f'{D}/{name}', 'wb') as file:
        file.write(content)
    return os.open(f'{D}/{name}', os.O_RDWR | flags)

print('to itself')
one, two = pair()
fd = made('itself')
send(one, b'a file', fd)
_, (copy,), _ = receive(two)
print(os.read(fd, 3), os.read(copy, 3), os.lseek(fd, 0, os.SEEK_CUR), os.path.samestat(os.fstat(fd), os.fstat(copy)))
fcntl.fcntl(copy, fcntl.F_SETFL, os.O_APPEND)
print(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND != 0, fcntl.fcntl(copy, fcntl.F_GETFD), os.readlink(f'/proc/self/fd/{copy}').replace(D, 'D'))
fcntl.flock(fd, fcntl.LOCK_EX)
print('one description has one lock', said(fcntl.flock, copy, fcntl.LOCK_EX | fcntl.LOCK_NB))
os.close(fd)
print(os.write(copy, b'!'), os.pread(copy, 50, 0))
send(one, b'again', copy)
_, (again,), _ = receive(two, flags=socket.MSG_CMSG_CLOEXEC)
print(fcntl.fcntl(again, fcntl.F_GETFD), os.lseek(again, 2, os.SEEK_SET), os.read(copy, 2))

print('to another program')
fd = made('shared')
os.read(fd, 2)
send(one, b'shared', fd)
print(other('read', two), one.recv(10), os.read(fd, 3), os.lseek(fd, 0, os.SEEK_CUR))
print('and once more')
send(one, b'again', fd)
print(other('read', two), one.recv(10), os.read(fd, 3))

print('several, of the kernel and not, one twice')
files = [made('first', b''), os.memfd_create('kernel'), made('second', b'', os.O_APPEND), made('third', b'')]
os.set_blocking(files[3], True)
send(one, b'many', files[0], files[1], files[2], files[2], files[3])
print(other('write', two), one.recv(10))
print([(os.pread(fd, 100, 0), os.lseek(fd, 0, os.SEEK_CUR)) for fd in files])

print('sent by who is gone, of a file that is gone')
print(other('send', two))
_, (fd,), _ = receive(one)
print(os.read(fd, 9), os.fstat(fd).st_nlink, os.pread(fd, 100, 0), os.write(fd, b'...'), os.fstat(fd).st_size)

print('closed before it is received')
fd = made('closed')
os.lseek(fd, 7, os.SEEK_SET)
send(one, b'x', fd)
os.close(fd)
os.unlink(f'{D}/closed')
_, (fd,), _ = receive(two)
print(os.read(fd, 3), os.fstat(fd).st_nlink)

print('sent on, forked, executed and sent back')
fd = made('on')
send(one, b'on', fd)
print(other('on', two), os.read(fd, 2))
_, (back,), _ = receive(one)
print(os.read(back, 1), os.read(fd, 1))

print('what a family shares is shared with whoever it is sent to')
fd = made('family')
in_parent, in_child = pair()
child = os.fork()
if child == 0:
    in_child.recv(1)
    send(one, b'by a child', fd)
    in_child.send(b'1')
    in_child.recv(1)
    os.read(fd, 1)
    in_child.send(b'2')
    in_child.recv(1)
    os._exit(0)
in_parent.send(b'1')
in_parent.recv(1)
_, (copy,), _ = receive(two)
print(os.read(copy, 2), os.read(fd, 2))
in_parent.send(b'2')
in_parent.recv(1)
print(os.read(copy, 2), os.read(fd, 2))
send(one, b'by the parent', fd)
_, (third,), _ = receive(two)
print(os.read(third, 2), os.read(copy, 2), os.read(fd, 2))
in_parent.send(b'3')
os.waitpid(child, 0)

print('room for fewer')
files = [made('a', b'a'), made('b', b'b'), made('c', b'c')]
send(one, b'three', *files)
data, fds, flags = receive(two, room=1)
print(data, flags == socket.MSG_CTRUNC, [os.read(fd, 5) for fd in fds if True][:1], os.lseek(files[2], 0, os.SEEK_CUR))
send(one, b'none', files[1])
print(two.recv(10), os.read(files[1], 5))

print('looked at first')
fd = made('peeked')
send(one, b'peek', fd)
for flags in (socket.MSG_PEEK, socket.MSG_PEEK, 0):
    data, (copy,), _ = receive(two, flags=flags)
    print(data, os.read(copy, 2))
    os.close(copy)
print(os.read(fd, 2))

print('with credentials, and as a message of its own kind')
for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    left, right = pair(kind)
    right.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    fd = made('kinds')
    send(left, b'one', fd)
    send(left, b'two', fd)
    print([(data, [os.read(fd, 2) for fd in fds]) for data, fds, _ in (receive(right), receive(right))])

print('folders and paths')
os.mkdir(f'{D}/folder')
open(f'{D}/folder/name', 'w').close()
folder, path = os.open(f'{D}/folder', os.O_RDONLY), os.open(f'{D}/itself', os.O_PATH)
send(one, b'folder', folder, path)
_, fds, _ = receive(two)
print(os.listdir(fds[0]), said(os.read, fds[1], 1), os.stat('name', dir_fd=fds[0]).st_size, os.fstat(fds[1]).st_size)
os.fchdir(fds[0])
print(os.getcwd().replace(D, 'D'), fcntl.fcntl(fds[1], fcntl.F_GETFL) & os.O_PATH != 0)
os.chdir('/')

print('by those who do it for others')
ends = multiprocessing.connection.Pipe()
child = os.fork()
fd = made('handle')
if child == 0:
    received = reduction.recv_handle(ends[1])
    print('  child', os.read(received, 4), flush=True)
    os._exit(0)
reduction.send_handle(ends[0], fd, child)
print(os.waitpid(child, 0)[1], os.read(fd, 4))
socket.send_fds(one, [b'x'], [fd])
_, (copy,), _, _ = socket.recv_fds(two, 10, 1)
print(os.read(copy, 4))

class Message(ctypes.Structure):
    _fields_ = [('name', ctypes.c_void_p), ('name_bytes', ctypes.c_uint), ('parts', ctypes.c_void_p), ('part_count', ctypes.c_size_t),
                ('control', ctypes.c_void_p), ('control_bytes', ctypes.c_size_t), ('flags', ctypes.c_long), ('count', ctypes.c_uint)]
def messages(rooms):
    kept, made = [], (Message * len(rooms))()
    for message, (text, control) in zip(made, rooms):
        kept += [text, control, (ctypes.c_size_t * 2)(ctypes.addressof(text), len(text))]
        message.parts, message.part_count = ctypes.addressof(kept[-1]), 1
        message.control, message.control_bytes = ctypes.addressof(control), len(control)
    return made, kept

print('several messages at once')
left, right = pair(socket.SOCK_DGRAM)
fd = made('at once')
rights = struct.pack('Qiii4x', 20, socket.SOL_SOCKET, socket.SCM_RIGHTS, fd)
out, _kept = messages([(ctypes.create_string_buffer(b'm', 1), ctypes.create_string_buffer(rights, 24)) for _ in range(3)])
print(libc.sendmmsg(left.fileno(), out, 3, 0), [message.count for message in out])
into, _room = messages([(ctypes.create_string_buffer(10), ctypes.create_string_buffer(24)) for _ in range(3)])
print(libc.recvmmsg(right.fileno(), into, 3, 0, None), [message.count for message in into])
print([os.read(struct.unpack_from('i', ctypes.string_at(message.control, 24), 16)[0], 2) for message in into], os.read(fd, 2))

print('one that is wrong among several')
closed = os.dup(fd)
os.close(closed)
right.setblocking(False)
for which in range(3):
    wrong = struct.pack('Qiii4x', 20, socket.SOL_SOCKET, socket.SCM_RIGHTS, closed)
    out, _kept = messages([(ctypes.create_string_buffer(b'm', 1), ctypes.create_string_buffer(wrong if one == which else rights, 24)) for one in range(3)])
    sent = libc.sendmmsg(left.fileno(), out, 3, 0)
    print(sent, errno.errorcode[ctypes.get_errno()] if sent < 0 else [message.count for message in out], [said(right.recv, 10) for _ in range(3)])

print('numbers of what is not open')
numbers = set(range(os.sysconf('SC_OPEN_MAX'))[:1 << 16]) - {int(number) for number in os.listdir('/proc/self/fd')}
print({said(send, left, b'x', number) for number in numbers})

print('what is wrong')
closed = os.dup(fd)
os.close(closed)
print(said(send, one, b'x', fd, closed), said(os.read, closed, 1), os.read(fd, 2))
if hasattr(os, 'pidfd_open'):
    send(one, b'x', fd)
    _, (copy,), _ = receive(two)
    pid = os.pidfd_open(os.getpid())
    taken = libc.syscall(438, pid, copy, 0)
    print(os.read(taken, 2), os.read(fd, 1))

print('many')
for turn in range(300):
    fd = made('turn', b'%d' % turn)
    send(one, b'x', fd)
    os.close(fd)
    _, (copy,), _ = receive(two)
    assert os.read(copy, 10) == b'%d' % turn
    os.close(copy)
print('done')
