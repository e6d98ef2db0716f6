# Calls on a file that is mapped shared, by processes that do everything to their descriptors, in directory sys.argv[1].
# Prints nothing that varies.
import errno, fcntl, mmap, os, resource, subprocess, sys, threading

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
D = sys.argv[1]
os.chdir(D)

def said(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]

file = os.open('mapped', os.O_RDWR | os.O_CREAT)
os.write(file, bytes(range(256)) * 64)
memory = mmap.mmap(file, 16384)

def works(what):
    for at in range(0, 16384, 1000):
        assert os.pwrite(file, b'%06d' % at, at) == 6
        assert os.pread(file, 6, at) == b'%06d' % at == memory[at:at + 6], at
    print(what, os.fstat(file).st_size, said(os.pread, file, 3, 16383))

def listed():
    return sorted(int(name) for name in os.listdir('/proc/self/fd'))

works('at first')
few = len(listed())

child = os.fork()
if child == 0:
    works('in a child')
    os._exit(0)
os.waitpid(child, 0)
works('after it')
sys.stdout.flush()
subprocess.run(['sh', '-c', 'head -c 6 mapped; printf child | dd of=mapped conv=notrunc status=none'], check=True)
print('', memory[:6])
works('after a program')

# Every number there is becomes another file's, and none of them is the mapped one's.
other = os.open('other', os.O_RDWR | os.O_CREAT)
limit = 1024
taken = [number for number in range(limit) if number not in (0, 1, 2, file, other) and said(os.dup2, other, number) == number]
works('with every number taken')
print(os.fstat(other).st_size)
for number in taken:
    os.close(number)
os.closerange(3, file)
os.closerange(file + 1, limit)
works('with all others closed')
print(len(listed()) <= few)

def many():
    for _ in range(300):
        os.pwrite(file, b'thread', 4096 * 3)
        assert os.pread(file, 6, 4096 * 3) == b'thread'
threads = [threading.Thread(target=many) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(5):
    subprocess.run(['/bin/true'])
for thread in threads:
    thread.join()
works('beside threads and programs')

# Out of the mode and in again: another file of the kernel's.
for round in range(3):
    memory.close()
    os.close(file)
    file = os.open('mapped', os.O_RDWR)
    assert os.pread(file, 6, 0) == b'%06d' % 0
    memory = mmap.mmap(file, 16384)
    works('again')
os.ftruncate(file, 5)
print(os.pread(file, 10, 0), os.fstat(file).st_size)

resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
files = []
while True:
    number = said(os.open, 'many%d' % len(files), os.O_RDWR | os.O_CREAT)
    if isinstance(number, str):
        break
    os.write(number, b'x' * 5000)
    files.append((number, said(mmap.mmap, number, 5000)))
print(number, len(files) > 8)
for number, mapping in files:
    if not isinstance(mapping, str):
        assert os.pwrite(number, b'y', 4999) == 1 and mapping[4998:5000] == b'xy'
