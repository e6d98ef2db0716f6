# How much one call moves between a pipe and a file, what it leaves, and when it does not wait.
import ctypes, errno, fcntl, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.splice.restype = libc.sendfile.restype = libc.vmsplice.restype = ctypes.c_ssize_t
libc.splice.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
libc.sendfile.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
os.chdir(sys.argv[1])
MOVE, NONBLOCK = 1, 2

def told(answer):
    return answer if answer >= 0 else errno.errorcode[ctypes.get_errno()]

def reference(at):
    return None if at is None else ctypes.cast(ctypes.pointer(at), ctypes.c_void_p)

def splice(source, target, count, flags=0, source_at=None, target_at=None):
    return told(libc.splice(source, reference(source_at), target, reference(target_at), count, flags))

def ready(pipe):
    found = ctypes.c_int()
    libc.ioctl(pipe, 0x541b, ctypes.byref(found))
    return found.value

data = bytes(range(256)) * 1024
open('from', 'wb').write(data)
source, target = os.open('from', os.O_RDONLY), os.open('to', os.O_RDWR | os.O_CREAT)
r, w = os.pipe()
at = ctypes.c_int64(0)
print('empty', splice(r, target, 10, NONBLOCK))
for count in (1, 4096, 5000, 65408, 65536):
    os.write(w, data[:count])
    print('out', count, splice(r, target, 1 << 20, 0, None, at), at.value, ready(r), os.lseek(target, 0, 1))
os.write(w, data[:50000])
print('part', splice(r, target, 30000), ready(r), os.lseek(target, 0, 1), splice(r, target, 30000, NONBLOCK), ready(r))
for count in (1, 4096, 5000, 65536, 1 << 18):
    at = ctypes.c_int64(4096)
    print('in', count, splice(source, w, count, 0, at), at.value, ready(r), os.lseek(source, 0, 1), os.read(r, 1 << 20) == data[4096:at.value])
print('own offset', splice(source, w, 100000), os.lseek(source, 0, 1), ready(r), splice(source, w, 10, NONBLOCK), len(os.read(r, 1 << 20)))
os.set_blocking(w, False); os.set_blocking(r, False)
print('full', splice(source, w, 100000), splice(source, w, 1), os.lseek(source, 0, 1), len(os.read(r, 1 << 20)), splice(r, target, 1))
at = ctypes.c_int64(0)
print('sendfile', told(libc.sendfile(w, source, reference(at), 1 << 18)), at.value, told(libc.sendfile(w, source, reference(at), 1 << 18)), ready(r), os.read(r, 1 << 20) == data[:65536])
os.set_blocking(w, True)
print('sendfile, waiting', told(libc.sendfile(w, source, reference(at), 1 << 18)), at.value, len(os.read(r, 1 << 20)))
fcntl.fcntl(w, 1031, 1 << 20)
at = ctypes.c_int64(0)
print('large pipe', splice(source, w, 1 << 20, 0, at), at.value, splice(r, target, 1 << 20), ready(r))
os.lseek(source, 0, 2)
print('end', splice(source, w, 10), os.lseek(target, 0, 1))
appending = os.open('to', os.O_WRONLY | os.O_APPEND)
os.write(w, b'rest')
print('refused', splice(r, appending, 10), splice(r, source, 10), splice(source, target, 10), splice(r, target, 10, 0, at), splice(r, target, 10, 64), ready(r))
os.close(w)
print('last', splice(r, target, 10), splice(r, target, 10))
print(os.stat('to').st_size, sum(open('to', 'rb').read()))
