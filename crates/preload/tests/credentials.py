# Who may what after ids, groups and capabilities changed, in directory sys.argv[1]. Prints nothing that varies.
import ctypes, errno, os, queue, struct, sys, threading

D = sys.argv[1] + '/credentials'
os.mkdir(D)
libc = ctypes.CDLL(None, use_errno=True)
SETFSUID, SETFSGID, SETGROUPS, CAPGET, CAPSET = 122, 123, 116, 125, 126
USER, OTHER, GROUP = 1234, 4321, 777

def said(call, *arguments, **named):
    try:
        answer = call(*arguments, **named)
    except OSError as error:
        return errno.errorcode[error.errno]
    return answer

def reads(name):
    try:
        with open(f'{D}/{name}') as file:
            return file.read()
    except OSError as error:
        return errno.errorcode[error.errno]

def made(name, mode, uid=0, gid=0):
    with open(f'{D}/{name}', 'w') as file:
        file.write(name)
    os.chown(f'{D}/{name}', uid, gid)
    os.chmod(f'{D}/{name}', mode)

def capabilities(effective):
    header = struct.pack('Ii', 0x20080522, 0)
    data = ctypes.create_string_buffer(24)
    libc.syscall(CAPGET, header, data)
    words = list(struct.unpack('6I', data.raw))
    words[0], words[3] = effective(words[0] | words[3] << 32) & 0xffffffff, effective(words[0] | words[3] << 32) >> 32
    print('capset', libc.syscall(CAPSET, header, struct.pack('6I', *words)))

# A thread that does what it is told, beside the first.
asked, answered = queue.Queue(), queue.Queue()
def serve():
    while (call := asked.get()) is not None:
        answered.put(call())
threading.Thread(target=serve).start()
def beside(call, *arguments):
    asked.put(lambda: call(*arguments))
    return answered.get()

os.umask(0)
made('roots', 0o600)
made('users', 0o600, USER, USER)
made('groups', 0o640, 0, GROUP)
made('nobodys', 0)
made('readable', 0o444)
os.mkdir(f'{D}/closed', 0o700)
made('closed/inside', 0o666)
names = ['roots', 'users', 'groups', 'nobodys', 'readable', 'closed/inside']
def all_of_it():
    return [reads(name) for name in names]

print('root', all_of_it(), beside(all_of_it))
os.setegid(USER)
os.seteuid(USER)
print('another user, in every thread', all_of_it(), beside(all_of_it))
print('names', said(os.unlink, f'{D}/roots'), said(os.chmod, f'{D}/roots', 0o777), said(os.chown, f'{D}/users', OTHER, -1))
os.seteuid(0)
os.setegid(0)
print('root again', all_of_it(), beside(all_of_it))

print('one thread by itself', beside(libc.syscall, SETFSUID, USER), beside(libc.syscall, SETFSGID, USER))
print('its calls', beside(all_of_it), 'the others', all_of_it())
os.chmod(D, 0o777)
beside(lambda: os.close(os.open(f'{D}/made', os.O_CREAT | os.O_WRONLY, 0o644)))
print('made by', os.stat(f'{D}/made').st_uid, os.stat(f'{D}/made').st_gid)
print('as others see it', [said(os.access, f'{D}/{name}', os.R_OK) for name in names],
      beside(lambda: [said(os.access, f'{D}/{name}', os.R_OK) for name in names]))
print('groups', beside(libc.syscall, SETGROUPS, 1, struct.pack('I', GROUP)), beside(reads, 'groups'), beside(libc.syscall, SETFSUID, 0),
      beside(all_of_it))

os.setresuid(USER, 0, 0)
print('real ids', [said(os.access, f'{D}/{name}', os.R_OK) for name in names], all_of_it())
print('effective ids', [said(os.access, f'{D}/{name}', os.R_OK, effective_ids=True) for name in names])
os.setresuid(0, 0, 0)

# access() asks what the real user could do: root all it is permitted, effective or not, and anybody else nothing by capabilities.
SEARCH, OVERRIDE = 1 << 2, 1 << 1
def asked_both():
    return [(said(os.access, f'{D}/{name}', rights), said(os.access, f'{D}/{name}', rights, effective_ids=True))
            for name in names for rights in (os.R_OK, os.W_OK, os.F_OK)], all_of_it()
os.chown(f'{D}/closed', OTHER, OTHER)
os.chown(f'{D}/roots', OTHER, OTHER)
capabilities(lambda now: now & ~(SEARCH | OVERRIDE))
print('root without', asked_both())
capabilities(lambda now: now | SEARCH | OVERRIDE)
os.setresuid(USER, USER, 0)
for effective in (0, SEARCH, OVERRIDE, SEARCH | OVERRIDE):
    capabilities(lambda now: effective)
    print('a user with', effective, asked_both())
os.setresuid(0, 0, 0)
for name in ('closed', 'roots'):
    os.chown(f'{D}/{name}', 0, 0)

child = os.fork()
if child == 0:
    os.setuid(OTHER)
    os._exit(len([reads(name) for name in names if reads(name) == 'EACCES']))
print('a child', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 'its parent', all_of_it())

os.chown(f'{D}/readable', OTHER, OTHER)
os.chmod(f'{D}/readable', 0o4444)
DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, CHOWN, FSETID, MKNOD = 1, 2, 3, 0, 4, 27
def drop(*bits):
    capabilities(lambda now: now & ~sum(1 << bit for bit in bits))
def try_all():
    return (all_of_it(), said(os.chmod, f'{D}/readable', 0o4444), said(os.chown, f'{D}/users', USER, USER),
            said(os.utime, f'{D}/readable', (1, 1)), said(os.open, f'{D}/users', os.O_WRONLY) in ('EACCES',),
            said(os.listdir, f'{D}/closed'), said(os.mknod, f'{D}/null', 0o020666, 259), said(os.unlink, f'{D}/null'))
print('all', try_all())
for bits in [(DAC_OVERRIDE,), (DAC_READ_SEARCH,), (FOWNER,), (CHOWN,), (MKNOD,), (FSETID,)]:
    drop(*bits)
    print('without', bits, try_all())
asked.put(None)
print('done')
