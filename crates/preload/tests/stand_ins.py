# Named pipes and sockets in directory sys.argv[1]. Prints nothing that varies.
import ctypes, errno, os, signal, socket, stat, struct, subprocess, sys

D = sys.argv[1] + '/special'
os.mkdir(D)
os.umask(0o022)

def said(call, *arguments, **named):
    try:
        return call(*arguments, **named)
    except OSError as error:
        return errno.errorcode[error.errno]

def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            os._exit(int(work() or 0))
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(99)
    return child

def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

# Pipes
P = f'{D}/pipe'
os.mkfifo(P, 0o640)
print('made', stat.filemode(os.stat(P).st_mode), said(os.open, P, os.O_WRONLY | os.O_NONBLOCK))
reader = os.open(P, os.O_RDONLY | os.O_NONBLOCK)
writer = os.open(P, os.O_WRONLY)
print('through', os.write(writer, b'hello'), os.read(reader, 100), stat.S_ISFIFO(os.fstat(reader).st_mode))
os.close(reader)
os.close(writer)
child = in_child(lambda: os.write(os.open(P, os.O_WRONLY), b'from the child') and 7)
with open(P, 'rb') as file:
    print('another process', file.read(), ended(child))
os.rename(P, f'{D}/moved')
os.link(f'{D}/moved', f'{D}/linked')
child = in_child(lambda: os.write(os.open(f'{D}/linked', os.O_WRONLY), b'by another name') and 7)
with open(f'{D}/moved', 'rb') as file:
    print('renamed', file.read(), ended(child))
print(subprocess.run(f'cd {D} && mkfifo shell && (echo one; echo two) > shell & cd {D} && sleep 0; while [ ! -p shell ]; do :; done; cat shell', shell=True, capture_output=True).stdout)
def stop(*_):
    # Again and again, as one signal could come before the wait that it is to end.
    global is_waiting
    if is_waiting:
        is_waiting = False
        raise InterruptedError('by a signal')
is_waiting = False
signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
try:
    is_waiting = True
    os.open(P if os.path.exists(P) else f'{D}/moved', os.O_RDONLY)
except InterruptedError as error:
    print('a wait ends', error)
signal.setitimer(signal.ITIMER_REAL, 0)
print('flags', said(os.open, f'{D}/moved', os.O_RDONLY | os.O_DIRECTORY), said(os.open, f'{D}/moved', os.O_CREAT | os.O_EXCL),
      said(os.truncate, f'{D}/moved', 5))

# Sockets
S = f'{D}/socket'
server = socket.socket(socket.AF_UNIX)
print('bind', said(server.bind, S), stat.filemode(os.stat(S).st_mode), said(server.bind, f'{D}/second'), os.path.exists(f'{D}/second'))
print('nobody listens', said(socket.socket(socket.AF_UNIX).connect, S))
server.listen()
print('in use', said(socket.socket(socket.AF_UNIX).bind, S), said(socket.socket(socket.AF_UNIX).bind, f'{D}/pipe/x'),
      said(socket.socket(socket.AF_UNIX).bind, f'{D}/none/x'), said(os.open, S, os.O_RDONLY))
def talk(name):
    client = socket.socket(socket.AF_UNIX)
    client.connect(name)
    client.sendall(b'ping')
    return client.recv(100) == b'pong'
def served():
    connection, _ = server.accept()
    with connection:
        asked = connection.recv(100)
        connection.sendall(b'pong')
        return asked
child = in_child(lambda: talk(S))
print('served', served(), ended(child))
os.chdir(D)
os.symlink('socket', 'alias')
os.rename('socket', 'other')
os.symlink('other', 'socket')
child = in_child(lambda: talk('./alias'))
print('by links, relative', served(), ended(child))
out = socket.socket(socket.AF_UNIX)
outside = f'/tmp/cuesta-test-socket-{os.getpid()}'
os.symlink(outside, 'outside')
out.bind(outside)
out.listen()
child = in_child(lambda: talk(f'{D}/outside'))
server, kept = out, server
print('out of the directory', served(), ended(child))
os.unlink(outside)
print('what is no socket', said(socket.socket(socket.AF_UNIX).connect, D), said(socket.socket(socket.AF_UNIX).connect, f'{D}/moved'),
      said(socket.socket(socket.AF_UNIX).connect, f'{D}/none'), said(socket.socket(socket.AF_INET).bind, ('127.0.0.1', 0)))
kept.close()
print('left behind', said(socket.socket(socket.AF_UNIX).connect, 'other'), said(os.unlink, 'other'), said(socket.socket(socket.AF_UNIX).connect, 'other'))
again = socket.socket(socket.AF_UNIX)
print('bound again', said(again.bind, 'other'), stat.S_ISSOCK(os.lstat('other').st_mode))

private = socket.socket(socket.AF_UNIX)
os.fchmod(private.fileno(), 0o600)
print('private', said(private.bind, 'private'), stat.filemode(os.stat('private').st_mode))

# Datagrams
one, other = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
one.bind(f'{D}/datagrams')
# What is not sent is not waited for.
one.settimeout(30)
print('sendto', other.sendto(b'a letter', f'{D}/datagrams'), one.recv(100))
print('sendmsg', other.sendmsg([b'two ', b'parts'], [], 0, 'datagrams'), one.recv(100))
class Message(ctypes.Structure):
    _fields_ = [('name', ctypes.c_char_p), ('name_bytes', ctypes.c_uint), ('parts', ctypes.c_void_p), ('part_count', ctypes.c_size_t),
                ('control', ctypes.c_void_p), ('control_bytes', ctypes.c_size_t), ('flags', ctypes.c_long), ('sent', ctypes.c_uint)]
def send_all(sender, *letters, flags=0):
    messages = (Message * len(letters))()
    kept = []
    for message, (text, name, descriptors) in zip(messages, letters):
        kept.append(ctypes.create_string_buffer(text, len(text)))
        kept.append((ctypes.c_size_t * 2)(ctypes.addressof(kept[-1]), len(text)))
        message.parts, message.part_count = ctypes.addressof(kept[-1]), 1
        if name:
            message.name = struct.pack('H', socket.AF_UNIX) + name.encode() + b'\0'
            message.name_bytes = 3 + len(name)
        if descriptors:
            rights = struct.pack(f'Qii{len(descriptors)}i4x', 16 + 4 * len(descriptors), socket.SOL_SOCKET, socket.SCM_RIGHTS, *descriptors)
            kept.append(ctypes.create_string_buffer(rights, len(rights)))
            message.control, message.control_bytes = ctypes.addressof(kept[-1]), 16 + 4 * len(descriptors)
    sent = libc.sendmmsg(sender.fileno(), messages, len(letters), flags)
    return sent if sent >= 0 else errno.errorcode[ctypes.get_errno()], [message.sent for message in messages]
libc = ctypes.CDLL(None, use_errno=True)
print('sendmmsg', send_all(other, (b'first', 'datagrams', ()), (b'the second', f'{D}/datagrams', ())), one.recv(100), one.recv(100))
print('to nobody', send_all(other, (b'x', 'none', ()), (b'y', 'datagrams', ())), send_all(other, (b'first', 'datagrams', ()), (b'x', 'none', ())), one.recv(100))
print('flags', send_all(other, (b'x', 'datagrams', ()), flags=socket.MSG_OOB))
left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
read_end, write_end = os.pipe()
print('rights', send_all(left, (b'a pipe', None, (write_end,)), (b'plain', None, ())))
received = socket.recv_fds(right, 100, 4)
print(received[0], os.write(received[1][0], b'through') and os.read(read_end, 100), right.recv(100))
print('not open', {send_all(left, (b'x', None, (number,)))[0] for number in range(30, 2000) if not os.path.exists(f'/proc/self/fd/{number}')})
print('connected', said(other.connect, f'{D}/datagrams'), other.send(b'more'), one.recv(100))
print('stream', said(socket.socket(socket.AF_UNIX).connect, f'{D}/datagrams'))
if os.geteuid() == 0:
    os.chmod(f'{D}/datagrams', 0o700)
    os.chmod(f'{D}/moved', 0o600)
    os.seteuid(1234)
    print('another user', said(other.sendto, b'x', f'{D}/datagrams'), said(os.open, f'{D}/moved', os.O_RDONLY | os.O_NONBLOCK))
    os.seteuid(0)
print('listed', sorted(os.listdir(D)))
for name in os.listdir(D):
    os.unlink(f'{D}/{name}')
print('done')
