# Locks between processes, in directory sys.argv[1]. Prints nothing that varies.
import array, ctypes, errno, fcntl, os, signal, socket, struct, subprocess, sys

D = sys.argv[1] + '/locks'
# Nobody waits for what will not come.
signal.alarm(100)
GETLK, OFD_GETLK, OFD_SETLK, OFD_SETLKW = 5, 36, 37, 38
READ, WRITE, UNLOCK = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK
NAMES = {READ: 'read', WRITE: 'write', UNLOCK: 'unlocked'}
MAX = 2**63 - 1

def said(call, *arguments):
    try:
        answer = call(*arguments)
        return 'ok' if answer is None or isinstance(answer, bytes) else answer
    except OSError as error:
        return errno.errorcode[error.errno]

def packed(kind, start=0, length=0, whence=0, pid=0):
    return struct.pack('hhqqi4x', kind, whence, start, length, pid)

def lock(fd, kind, start=0, length=0, whence=0, wait=False, pid=0):
    return said(fcntl.fcntl, fd, fcntl.F_SETLKW if wait else fcntl.F_SETLK, packed(kind, start, length, whence, pid))

def ofd(fd, kind, start=0, length=0, whence=0, wait=False, pid=0):
    return said(fcntl.fcntl, fd, OFD_SETLKW if wait else OFD_SETLK, packed(kind, start, length, whence, pid))

def who(pid):
    return {os.getpid(): 'this process', os.getppid(): 'its parent', 0: 'nobody', -1: 'a description'}.get(pid, 'another')

def asked(fd, kind, start=0, length=0, whence=0, command=GETLK):
    try:
        kind, whence, start, length, pid = struct.unpack('hhqqi4x', fcntl.fcntl(fd, command, packed(kind, start, length, whence)))
    except OSError as error:
        return errno.errorcode[error.errno]
    return NAMES[kind], whence, start, length, who(pid)

def flock(fd, operation):
    return said(fcntl.flock, fd, operation)

SH, EX, UN, NB = fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN, fcntl.LOCK_NB

def opened(name, flags=os.O_RDWR | os.O_CREAT):
    return os.open(f'{D}/{name}', flags, 0o644)

def other(work, *arguments, fds=(), wait=True):
    """Another program, started anew; says what it said."""
    sys.stdout.flush()
    command = [sys.executable, sys.argv[0], sys.argv[1], work, *map(str, arguments)]
    program = subprocess.Popen(command, pass_fds=fds, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return program.communicate()[0].strip() if wait else program

def forked(work):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
            sys.stdout.flush()
        finally:
            os._exit(0)
    os.waitpid(child, 0)

def seen(name):
    """What an unrelated process gets of the file: a lock of each kind for itself, for the whole file. Where several are in
    its way any of them may be named: so there is at most one here in the first eight bytes, and one behind."""
    return other('try', name)

def state(pid):
    return open(f'/proc/{pid}/stat').read().rsplit(')')[1].split()[0]

def until_waiting(pid):
    """It sleeps, and goes on sleeping: in the call it was about to make."""
    count = 0
    while count < 50:
        count = count + 1 if state(pid) == 'S' else 0
        os.sched_yield()

if len(sys.argv) > 2:
    work, arguments = sys.argv[2], sys.argv[3:]
    if work == 'try':
        fd = opened(arguments[0])
        print('flock', flock(fd, EX | NB), flock(fd, SH | NB), flock(fd, UN), 'record', lock(fd, WRITE), lock(fd, READ), asked(fd, WRITE, 0, 8), asked(fd, WRITE, 8), lock(fd, UNLOCK),
            'ofd', ofd(fd, WRITE), ofd(fd, READ))
    elif work == 'hold':
        # Takes it, says so, and keeps it until it is told or killed.
        fd = opened(arguments[0])
        print({'flock': lambda: flock(fd, EX), 'record': lambda: lock(fd, WRITE, wait=True), 'ofd': lambda: ofd(fd, WRITE, wait=True)}[arguments[1]](), flush=True)
        sys.stdin.read()
    elif work == 'inherited':
        fd = int(arguments[0])
        print('inherited', flock(fd, EX | NB), ofd(fd, WRITE), lock(fd, WRITE, 5, 1), asked(fd, WRITE), seen('exec'))
    elif work == 'after exec':
        # The same process: its record locks are its own still.
        one = opened('exec')
        print('after exec', asked(one, WRITE), lock(one, WRITE, 0, 20), seen('exec'))
        os.close(one)
        print('closed', asked(int(arguments[0]), WRITE), seen('exec'))
    elif work == 'count':
        # Adds one again and again, under a lock.
        for _ in range(int(arguments[2])):
            fd = opened(arguments[0])
            {'flock': lambda: fcntl.flock(fd, EX), 'record': lambda: lock(fd, WRITE, wait=True), 'ofd': lambda: ofd(fd, WRITE, wait=True), 'none': lambda: 0}[arguments[1]]()
            number = int(os.pread(fd, 20, 0) or b'0')
            os.pwrite(fd, b'%d' % (number + 1), 0)
            os.close(fd)
    elif work == 'cross':
        # The second of two that want what the other has.
        fd = opened('cross')
        print(lock(fd, WRITE, 1, 1), flush=True)
        sys.stdin.readline()
        print(lock(fd, WRITE, 0, 1, wait=True), flush=True)
    sys.exit()

os.mkdir(D)

print('errors')
one = opened('errors')
os.write(one, b'0123456789')
os.lseek(one, 4, os.SEEK_SET)
for start, length, whence in [(0, 0, 0), (-1, 1, 0), (-1, 1, 1), (-5, 1, 1), (-1, 2, 2), (-11, 1, 2), (0, -1, 0), (4, -4, 0), (4, -5, 0), (MAX, 1, 0), (MAX, 2, 0),
        (MAX, 0, 0), (MAX, 1, 1), (MAX - 4, 1, 1), (1, MAX, 0), (2, MAX, 0), (MAX, 1, 2), (0, 1, 3), (-1, 1, -1), (0, -2**63, 0), (MAX, -MAX, 0), (2**62 - 2, 1, 0)]:
    print(start, length, whence, lock(one, WRITE, start, length, whence), ofd(one, READ, start, length, whence), lock(one, UNLOCK, start, length, whence),
        asked(one, READ, start, length, whence), ofd(one, UNLOCK), lock(one, UNLOCK))
print(lock(one, 9), lock(one, 3), asked(one, UNLOCK), ofd(one, WRITE, pid=1), ofd(one, UNLOCK, pid=1), asked(one, 7, command=OFD_GETLK), lock(one, WRITE, pid=7))
for flags in (os.O_RDONLY, os.O_WRONLY, os.O_PATH):
    fd = opened('errors', flags)
    print(flags, lock(fd, READ), lock(fd, WRITE), lock(fd, UNLOCK), asked(fd, READ), ofd(fd, READ), ofd(fd, WRITE), ofd(fd, UNLOCK), flock(fd, SH), flock(fd, EX), flock(fd, UN), flock(fd, 16), flock(fd, NB))
    os.close(fd)
os.close(one)
fd = os.open(D, os.O_RDONLY)
print('a directory', flock(fd, EX), lock(fd, READ), lock(fd, WRITE), asked(fd, WRITE))
os.close(fd)
print(said(fcntl.flock, 77, EX), said(fcntl.fcntl, 77, fcntl.F_SETLK, packed(WRITE)))
libc = ctypes.CDLL(None, use_errno=True)
fd = opened('errors')
print([(libc.fcntl(fd, command, ctypes.c_void_p(8)), errno.errorcode[ctypes.get_errno()]) for command in (GETLK, fcntl.F_SETLK, fcntl.F_SETLKW, OFD_SETLK)])
os.close(fd)

print('seen by others')
one = opened('seen')
for take in (lambda: flock(one, SH), lambda: flock(one, EX), lambda: flock(one, UN), lambda: lock(one, READ, 3, 4), lambda: lock(one, WRITE, 5, 10),
        lambda: lock(one, UNLOCK, 4, 6), lambda: lock(one, UNLOCK), lambda: ofd(one, WRITE, 7), lambda: ofd(one, READ, 3), lambda: ofd(one, UNLOCK), lambda: ofd(one, READ, 0, 9), lambda: ofd(one, UNLOCK)):
    print(take(), seen('seen'), [asked(opened('seen'), kind, 5, 1, command=OFD_GETLK) for kind in (READ, WRITE)])
os.close(one)

print('closing any descriptor drops the locks of the process')
for second in (lambda fd: opened('close'), lambda fd: opened('close', os.O_RDONLY), os.dup, lambda fd: opened('link')):
    fd = opened('close')
    if not os.path.exists(D + '/link'): os.link(D + '/close', D + '/link')
    before = second(fd)
    print(lock(fd, WRITE, 0, 5), seen('close'))
    after = second(fd)
    print(lock(fd, WRITE, 6, 2), ofd(fd, READ, 100, 1), seen('close'))
    os.close(before)
    print('one before', seen('close'))
    print(lock(fd, WRITE, 0, 5))
    os.close(after)
    print('one after', seen('close'), flock(fd, EX))
    lock(fd, WRITE, 0, 5)
    path = opened('close', os.O_PATH)
    os.close(path)
    print('a path', seen('close'))
    third = opened('close')
    os.dup2(third, 60)
    os.close(third)
    print('a copy is left', seen('close'), lock(fd, WRITE))
    os.dup2(os.open('/dev/null', os.O_RDONLY), 60)
    print('put something in its place', seen('close'), lock(fd, WRITE))
    fcntl.fcntl(fd, fcntl.F_DUPFD, 200)
    os.closerange(200, 210)
    print('a range', seen('close'))
    os.close(fd)

print('a fork makes none and takes none away')
fd = opened('fork')
print(flock(fd, EX), lock(fd, WRITE, 0, 3), ofd(fd, WRITE, 10, 3))
def child():
    print('child', asked(fd, WRITE, 0, 8), lock(fd, WRITE, 1, 1), ofd(fd, WRITE, 10, 5), lock(fd, READ, 20, 1), flock(fd, SH))
    again = opened('fork')
    print('again', flock(again, SH | NB), flock(again, EX | NB), asked(again, READ, 0, 8))
    os.close(again)
    print('closed', seen('fork'))
forked(child)
print('after', seen('fork'), flock(fd, EX))
def child():
    os.close(fd)
    print('child closed', seen('fork'))
forked(child)
def child():
    print('child unlocks', flock(fd, UN), ofd(fd, UNLOCK), lock(fd, UNLOCK))
forked(child)
print('after', seen('fork'))
os.close(fd)
fd = opened('fork')
other_fd = opened('fork')
def child():
    print('child locks', flock(fd, EX), lock(fd, WRITE), ofd(other_fd, WRITE, 50, 1))
forked(child)
print('it is gone, what is shared stays', seen('fork'), flock(other_fd, EX | NB), lock(fd, READ, 50, 1))
os.close(fd)
print('closed', seen('fork'))
os.close(other_fd)
print('and closed', seen('fork'))

print('exec')
fd = opened('exec')
print(other('inherited', fd, fds=(fd,)), seen('exec'))
for inherits in (True, False):
    def child():
        fd, kept, at_end = opened('exec'), opened('exec'), opened('exec')
        os.set_inheritable(kept, True)
        os.set_inheritable(fd, True)
        os.set_inheritable(at_end, inherits)
        print(lock(kept, WRITE, 0, 10), flock(at_end, EX), flush=True)
        os.execv(sys.executable, [sys.executable, sys.argv[0], sys.argv[1], 'after exec', str(kept)])
    os.close(fd)
    forked(child)
    fd = opened('exec')
os.close(fd)

print('sent')
left, right = socket.socketpair()
fd = opened('sent')
print(flock(fd, EX), ofd(fd, WRITE, 0, 5), [lock(fd, WRITE, 10 * n, 5) for n in range(1, 200)].count('ok'))
left.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))])
os.close(fd)
print('in flight', seen('sent'))
_, control, _, _ = right.recvmsg(10, socket.CMSG_SPACE(4))
fd = array.array('i', control[0][2])[0]
print('received', flock(fd, EX | NB), ofd(fd, WRITE, 3, 5), seen('sent'))
os.close(fd)
print('closed', seen('sent'))

print('a process that is killed')
for kind in ('flock', 'record', 'ofd'):
    holder = other('hold', 'killed', kind, wait=False)
    print(kind, holder.stdout.readline().strip(), seen('killed'))
    waiter = other('hold', 'killed', kind, wait=False)
    until_waiting(waiter.pid)
    holder.kill()
    print(waiter.stdout.readline().strip(), holder.wait(), seen('killed'))
    waiter.communicate()
    print('ended', seen('killed'))

print('deadlock')
fd = opened('cross')
print(lock(fd, WRITE, 0, 1))
second = other('cross', wait=False)
print(second.stdout.readline().strip())
second.stdin.write('go\n'); second.stdin.flush()
until_waiting(second.pid)
print(lock(fd, WRITE, 1, 1, wait=True), lock(fd, UNLOCK), second.stdout.readline().strip())
second.communicate()
os.close(fd)

print('signals')
class Caught(Exception): pass
holders = {kind: other('hold', 'signal-' + kind, kind, wait=False) for kind in ('flock', 'record', 'ofd')}
for kind, holder in holders.items():
    print(kind, holder.stdout.readline().strip())
    fd = opened('signal-' + kind)
    wait = {'flock': lambda: fcntl.flock(fd, EX), 'record': lambda: fcntl.fcntl(fd, fcntl.F_SETLKW, packed(WRITE)), 'ofd': lambda: fcntl.fcntl(fd, OFD_SETLKW, packed(WRITE))}[kind]
    def raising(*_): raise Caught
    signal.signal(signal.SIGUSR1, raising)
    def child():
        until_waiting(os.getppid())
        os.kill(os.getppid(), signal.SIGUSR1)
    signaller = os.fork()
    if signaller == 0:
        child()
        os._exit(0)
    try:
        wait()
        print('taken')
    except Caught:
        print('interrupted')
    os.waitpid(signaller, 0)
    # One that lets the call go on.
    handled = []
    signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
    signal.siginterrupt(signal.SIGUSR1, False)
    signaller = os.fork()
    if signaller == 0:
        child()
        until_waiting(os.getppid())
        os.kill(holder.pid, signal.SIGKILL)
        os._exit(0)
    wait()
    os.waitpid(signaller, 0)
    print('had it in the end', handled)
    holder.wait()
    os.close(fd)

print('processes that have become other users')
if os.getuid() == 0:
    fd = opened('users')
    os.chmod(D + '/users', 0o666)
    for user in (1000, 1001):
        def child():
            os.setgroups([]); os.setgid(user); os.setuid(user)
            own = os.open(D + '/users', os.O_RDWR)
            print(lock(own, WRITE, user - 1000, 1), ofd(own, WRITE, user - 990, 1), flock(own, SH), lock(fd, WRITE), flock(fd, EX | NB))
            def grandchild():
                print(asked(own, READ, 0, 5), ofd(fd, WRITE, 10, 2), lock(own, WRITE, 5, 1), flock(own, SH))
            forked(grandchild)
        forked(child)
    os.close(fd)

print('counting')
for kind in ('flock', 'record', 'ofd'):
    counters = [other('count', 'count-' + kind, kind, 300, wait=False) for _ in range(2)]
    for counter in counters: counter.communicate()
    print(kind, open(f'{D}/count-{kind}').read())

print('the shell')
def shell(script):
    sys.stdout.flush()
    return subprocess.run(['bash', '-c', script], cwd=D, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout.strip().replace('\n', '; ')
print(shell('exec 9>lock; flock 9; flock -n lock true; echo $?; (flock -n 9; echo $?); flock -u 9; flock -n lock echo free; exec 9>&-'))
print(shell('exec 9>lock; flock 9; sleep 30 & exec 9>&-; flock -n lock true; echo $?; kill %1; wait; flock -n lock echo free'))
print(shell('(flock -x 8; echo one; flock -n lock true; echo $?) 8>lock; flock -n lock sh -c "flock -n lock true; echo \\$?"; flock -s lock flock -s -n lock echo shared'))
print(shell('for i in 1 2 3 4 5 6 7 8; do (flock 9; n=$(cat number 2>/dev/null); echo $((n+1)) >number) 9>lock & done; wait; cat number; flock . echo directory'))
print(shell('''sqlite3 d 'create table t(a); insert into t values (1)'
mkfifo in; sqlite3 d <in >out & exec 7>in; echo 'begin immediate; insert into t values (2); select count(*) from t;' >&7; while [ ! -s out ]; do :; done
sqlite3 d 'select count(*) from t'; sqlite3 d 'begin immediate' 2>&1 | grep -o 'database is locked'; sqlite3 -cmd '.timeout 20000' d 'insert into t values (3); select count(*) from t' &
echo 'commit;' >&7; exec 7>&-; wait; cat out; sqlite3 d 'select sum(a) from t; pragma integrity_check' '''))
