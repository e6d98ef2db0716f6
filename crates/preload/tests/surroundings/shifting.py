# Collapsing and inserting in a file that was mapped, by this process and by another.
import ctypes, errno, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
os.chdir(sys.argv[1])
COLLAPSE, INSERT = 8, 32
told = lambda answer: 'ok' if answer == 0 else errno.errorcode[ctypes.get_errno()]

def content(name):
    data = open(name, 'rb').read()
    return len(data), [data[at:at + 1] for at in range(0, len(data), 4096)]

f = os.open('f', os.O_RDWR | os.O_CREAT, 0o644)
os.write(f, b''.join(bytes([97 + page]) * 4096 for page in range(16)))
for turn in range(3):
    m = mmap.mmap(f, 0); m[turn] = 65 + turn; m.close()
    print(told(libc.fallocate(f, COLLAPSE, 4096, 8192)), content('f'))
    m = mmap.mmap(f, 0); m[8192 + turn] = 75 + turn; m.close()
    print(told(libc.fallocate(f, INSERT, 4096, 4096)), content('f'))
if os.fork() == 0:
    other = os.open('f', os.O_RDWR); m = mmap.mmap(other, 0); m[0] = 90; m.close()
    print('child', os.pread(other, 3, 4096), os.fstat(other).st_size, flush=True)
    os._exit(0)
os.wait()
print(told(libc.fallocate(f, COLLAPSE, 0, 4096)), content('f'), flush=True)
print(told(libc.fallocate(f, INSERT, 0, 4096)), told(libc.fallocate(f, COLLAPSE, 1, 4096)), told(libc.fallocate(f, COLLAPSE, 1 << 30, 4096)), content('f'))
