# Shared mappings: one memory for processes that map a file, and one file for who reads, writes and cuts it otherwise.
python3 - <<'P'
import ctypes, errno, mmap, os, signal
PAGE = mmap.PAGESIZE
def failing(what, call):
    try: print(what, call())
    except (OSError, ValueError) as error: print(what, type(error).__name__, error.errno if isinstance(error, OSError) else error)
f = os.open('shared', os.O_RDWR | os.O_CREAT)
os.write(f, b'0123456789' * 1000)
m = mmap.mmap(f, 0)
m[0:5] = b'first'
print(os.pread(f, 12, 0), open('shared', 'rb').read()[:12], os.fstat(f).st_size)
os.pwrite(f, b'written', 4093); print(m[4090:4102])
os.pwrite(f, b'x' * 6000, 1000); print(m[998:1003], m[6998:7003], m[:].count(b'x'))
r, w = os.pipe()
child = os.fork()
if child == 0:
    m[20:25] = b'child'; other = os.open('shared', os.O_RDWR | os.O_APPEND); os.write(other, b'appended' * 1000)
    mine = mmap.mmap(other, 0); mine[-3:] = b'end'; mine.flush(); os.write(w, b'.'); os._exit(0)
os.read(r, 1); os.waitpid(child, 0)
print(m[18:27], os.fstat(f).st_size, os.pread(f, 20, 17985)); m.resize(18000); print(m[-11:])
for at in (0, PAGE, 2 * PAGE): print(at, m[at:at + 4])
os.ftruncate(f, PAGE + 10)
child = os.fork()
if child == 0:
    signal.signal(signal.SIGBUS, signal.SIG_DFL); print(m[PAGE + 8:PAGE + 12], flush=True); ctypes.memset(1 and (ctypes.c_char * 18000).from_buffer(m), 1, 3 * PAGE); os._exit(1)
print(os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGBUS)
os.ftruncate(f, 3 * PAGE); print(m[PAGE + 8:PAGE + 12], m[2 * PAGE:2 * PAGE + 3])
os.unlink('shared'); m[0:4] = b'gone'; print(os.pread(f, 8, 0), os.fstat(f).st_nlink); os.close(f); m[4:8] = b'kept'; print(m[:10]); m.close()
ro = os.open('ro', os.O_RDWR | os.O_CREAT); os.write(ro, b'r' * 100); os.close(ro)
ro, wo = os.open('ro', os.O_RDONLY), os.open('ro', os.O_WRONLY)
failing('writable of read-only', lambda: mmap.mmap(ro, 0)); failing('of write-only', lambda: mmap.mmap(wo, 0, prot=mmap.PROT_READ))
m = mmap.mmap(ro, 0, prot=mmap.PROT_READ); print(m[:5]); libc = ctypes.CDLL(None, use_errno=True)
failing('empty', lambda: mmap.mmap(os.open('empty', os.O_RDWR | os.O_CREAT), 0)); failing('directory', lambda: mmap.mmap(os.open('.', os.O_RDONLY), 10, prot=mmap.PROT_READ))
private = mmap.mmap(ro, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE); private[0:1] = b'P'; print(m[:3], private[:3])
os.pwrite(wo, b'new', 1); print(m[:5]); m.close()
f = os.open('sparse', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 1 << 34); m = mmap.mmap(f, 8192, offset=1 << 33); m[0:3] = b'far'; m.flush()
print(os.pread(f, 4, 1 << 33), os.lseek(f, 0, os.SEEK_DATA) == 1 << 33, os.lseek(f, 1 << 33, os.SEEK_HOLE) == (1 << 33) + PAGE, os.fstat(f).st_blocks); m.close(); os.close(f)
print(open('sparse', 'rb').seek(0, 2), os.stat('sparse').st_blocks); os.unlink('sparse')
for i in range(50):
    f = os.open('many%d' % i, os.O_RDWR | os.O_CREAT); os.ftruncate(f, 5000); m = mmap.mmap(f, 0); m[4990:] = b'%010d' % i; m.close(); os.close(f)
print(b''.join(open('many%d' % i, 'rb').read()[-4:] for i in range(50)))
os.rename('many1', 'many0'); print(open('many0', 'rb').read()[-3:]); a = os.open('many0', os.O_RDWR | os.O_TRUNC); print(os.fstat(a).st_size)
P
# What a file has of times, space and content, as it comes to be mapped, while it is, and after.
python3 - <<'P'
import ctypes, errno, mmap, os, signal, subprocess, sys
PAGE, WIDE = mmap.PAGESIZE, ctypes.c_long
libc = ctypes.CDLL(None, use_errno=True); libc.mmap.restype = ctypes.c_void_p
def ended(f, m):
    m.close(); os.close(f)
def seen(name):
    subprocess.run([sys.executable, '-c', 'import os, sys; s = os.stat(sys.argv[1]); print(s.st_size, s.st_blocks, s.st_mtime > 2000, s.st_mtime < 10**9, s.st_ctime >= s.st_mtime)', name])
def opened(name, content):
    f = os.open(name, os.O_RDWR | os.O_CREAT); os.write(f, content); os.utime(f, (1000, 1000)); return f, mmap.mmap(f, 0)
f, m = opened('times', b't' * 100); seen('times'); os.pwrite(f, b'later', 3); seen('times'); ended(f, m); seen('times')
f, m = opened('times', b't' * 100); os.utime(f, (1500, 1500)); seen('times'); ended(f, m); seen('times')
f, m = opened('space', b's' * 5 * PAGE)
for mode, at, count in (1, 0, 100000), (3, PAGE, PAGE), (0x10, 3 * PAGE, 10), (0x11, 4 * PAGE, 10 * PAGE), (0, 0, 6 * PAGE + 1):
    ctypes.set_errno(0); print(mode, libc.fallocate(f, mode, WIDE(at), WIDE(count)), errno.errorcode.get(ctypes.get_errno()), os.fstat(f).st_size, len(os.pread(f, 10 * PAGE, 0).strip(b'\0')), m[PAGE:PAGE + 1], m[3 * PAGE:3 * PAGE + 12])
ended(f, m)
# What was behind the end when the mapping went is not there when the file is longer again.
f, m = opened('shorter', b'old' * 2 * PAGE); os.ftruncate(f, PAGE // 2); ended(f, m); seen('shorter')
f = os.open('shorter', os.O_RDWR); os.ftruncate(f, 6 * PAGE); print(os.pread(f, 6 * PAGE, 0).rstrip(b'\0').count(b'old')); os.close(f)
f, m = opened('written', b'w' * PAGE); os.ftruncate(f, 10); m[100:104] = b'dirt'; os.pwrite(f, b'end', 200); print(os.pread(f, PAGE, 0)); ended(f, m)
# A mapping of one's own: all of a long file, its end, and nothing behind.
content = b''.join(b'%07d\n' % n for n in range(50000)); f = os.open('long', os.O_RDWR | os.O_CREAT); os.write(f, content)
for at in 0, 30 * PAGE:
    m = mmap.mmap(f, len(content) - at, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE, offset=at); print(m[:] == content[at:], m[len(m) - 9:]); m[0:4] = b'mine'; m.close()
print(os.pread(f, 8, 0))
for flags in mmap.MAP_PRIVATE, mmap.MAP_SHARED:
    pages = -(-len(content) // PAGE); where = libc.mmap(None, WIDE((pages + 1) * PAGE), 1, flags, f, WIDE(0)); print(ctypes.string_at(where + len(content) - 1, 5))
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGBUS, signal.SIG_DFL); ctypes.string_at(where + pages * PAGE, 1); os._exit(1)
    print(os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGBUS)
P
# Counters that processes share.
python3 - <<'P'
import mmap, os, struct, fcntl
f = os.open('counter', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 8)
for _ in range(4):
    if os.fork() == 0:
        g = os.open('counter', os.O_RDWR); m = mmap.mmap(g, 8)
        for _ in range(500):
            fcntl.lockf(g, fcntl.LOCK_EX); m[:] = struct.pack('q', struct.unpack('q', m[:])[0] + 1); fcntl.lockf(g, fcntl.LOCK_UN)
        os._exit(0)
for _ in range(4): os.wait()
print(struct.unpack('q', os.pread(f, 8, 0)))
P
# SQLite's write-ahead log: its index is memory that processes share.
sqlite3 wal.db "pragma journal_mode=wal; create table t(who, n)"
python3 - <<'P'
import os, sqlite3
for who in range(3):
    if os.fork() == 0:
        c = sqlite3.connect('wal.db', timeout=60, isolation_level=None)
        for n in range(100): c.execute('insert into t values(?, ?)', (who, n))
        os._exit(0)
for _ in range(3): print(os.wait()[1])
c = sqlite3.connect('wal.db'); print(c.execute('select who, count(*), sum(n) from t group by who').fetchall(), c.execute('pragma integrity_check').fetchone(), os.path.exists('wal.db-shm'), c.execute('pragma wal_checkpoint(truncate)').fetchone(), os.path.getsize('wal.db-wal'))
P
sqlite3 wal.db "pragma mmap_size=100000000; select count(*), sum(n) from t; pragma integrity_check; pragma journal_mode=delete"; ls; rm wal.db
# A linker that writes what it links through a mapping.
cat > a.c <<'C'
#include <stdio.h>
int main(void) { puts("linked"); return 0; }
C
cc -fuse-ld=gold -Wl,--build-id=none -o linked a.c && ./linked
python3 - <<'P'
import lmdb, os
env = lmdb.open('lmdb', map_size=1 << 30, max_dbs=2)
for who in range(3):
    if os.fork() == 0:
        e = lmdb.open('lmdb', map_size=1 << 30, max_dbs=2, writemap=who == 2)
        for n in range(100):
            with e.begin(write=True) as t: t.put(b'%d-%d' % (who, n), b'v' * (n * 10))
        os._exit(0)
for _ in range(3): print(os.wait()[1])
with env.begin() as t: print(t.stat()['entries'], sum(len(v) for _, v in t.cursor()))
env.copy('.'); print(env.info()['last_txnid'])
P
rm -r lmdb data.mdb

# What is open may be mapped, whoever the thread uses files as by now.
python3 - <<'END'
import ctypes, mmap, os
file = os.open('mapped later', os.O_RDWR | os.O_CREAT)
os.write(file, b'a' * 8192)
ctypes.CDLL(None).setfsuid(65534)
memory = mmap.mmap(file, 8192)
memory[4096:4097] = b'b'
print(os.pread(file, 2, 4095))
END
