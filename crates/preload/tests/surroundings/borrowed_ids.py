# Another user's ids for a while: what was open, relative paths, locks and shared mappings, in this process and in the child of a fork
# made before and after.
import ctypes, errno, fcntl, mmap, os, signal, sys
os.chdir(sys.argv[1]); os.chmod('.', 0o755)
os.umask(0o022)
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir('open'); os.chmod('open', 0o777); open('mine', 'w').write('mine'); os.chmod('mine', 0o600); open('all', 'w').write('all')

def attempt(what, call):
    try: answer = call()
    except OSError as error: answer = errno.errorcode[error.errno]
    print(who, what, answer, flush=True)

def work(number):
    name = f'open/{number}'
    attempt('read', lambda: open('all').read())
    attempt('refused', lambda: open('mine').read())
    attempt('not made', lambda: os.mkdir('no'))
    attempt('made', lambda: (os.mkdir(name + 'd'), open(name, 'w').write('x'), os.stat(name).st_uid)[2])
    f = os.open(name, os.O_RDWR)
    attempt('flock', lambda: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB))
    attempt('record', lambda: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB))
    def mapped():
        m = mmap.mmap(f, 1); m[0:1] = b'm'; m.close()
        return os.pread(f, 9, 0)
    # Whoever is another user for good cannot: see the limits.
    if who != 'for good': attempt('mapped', mapped)
    attempt('listed', lambda: sorted(os.listdir('.')))
    attempt('ids', lambda: (os.getresuid(), libc.prctl(3, 0, 0, 0, 0), [line for line in open('/proc/self/status') if line.startswith('CapEff')]))
    os.close(f)

def child(run):
    pid = os.fork()
    if pid == 0:
        run(); os._exit(0)
    os.waitpid(pid, 0)

who = 'before'; attempt('read', lambda: open('mine').read())
inherited = os.open('all', os.O_RDONLY)
def first():
    global who
    who = 'child'; os.seteuid(1000); work('child'); attempt('inherited', lambda: os.pread(inherited, 3, 0)); os.seteuid(0); attempt('back', lambda: open('mine').read())
child(first)
os.seteuid(1000); who = 'self'; work('self')
def second():
    global who
    who = 'child of other'; work('second'); os.seteuid(0); attempt('back', lambda: open('mine').read())
child(second)
def fourth():
    global who
    os.seteuid(0); os.setresuid(1000, 1000, 1000); who = 'for good'; work('fourth')
child(fourth)
os.seteuid(0); who = 'back'; attempt('read', lambda: open('mine').read())
print(sorted((name, os.stat('open/' + name).st_uid) for name in os.listdir('open')))
