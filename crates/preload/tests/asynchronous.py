# Asynchronous requests on files in directory sys.argv[1], beside others on a file of nobody's. Prints nothing that varies.
import ctypes, errno, os, platform, select, struct, sys

SETUP, DESTROY, SUBMIT, GETEVENTS = (206, 207, 209, 208) if platform.machine() == 'x86_64' else (0, 1, 2, 4)
PREAD, PWRITE, FSYNC, FDSYNC, POLL, NOOP, PREADV, PWRITEV = 0, 1, 2, 3, 5, 6, 7, 8
LAYOUT = 'QIIHhIQQqQII'
libc = ctypes.CDLL(None, use_errno=True)
kept = []

def call(number, *arguments):
    arguments = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    answer = libc.syscall(ctypes.c_long(number), *arguments)
    return answer if answer >= 0 else errno.errorcode[ctypes.get_errno()]

context = ctypes.c_ulong(0)
print('setup', call(SETUP, 32, ctypes.byref(context)))

def buffer(content):
    made = ctypes.create_string_buffer(content, len(content))
    kept.append(made)
    return made

def request(data, operation, fd, into=None, length=0, offset=0, io_flags=0, flags=0, event=0, reserved=0, priority=0):
    # To wait takes the events instead.
    address = into if isinstance(into, int) else ctypes.addressof(into) if into else 0
    return buffer(struct.pack(LAYOUT, data, 0, io_flags, operation, priority, fd & 0xffffffff, address, length, offset, reserved, flags, event))

def submit(*requests):
    array = (ctypes.c_void_p * len(requests))(*[ctypes.addressof(one) for one in requests])
    before = [one.raw for one in requests]
    answer = call(SUBMIT, context.value, len(requests), array)
    unchanged = [one.raw for one in requests] == before
    return answer, unchanged, finished(answer if isinstance(answer, int) else 0, requests)

def finished(count, requests):
    events = ctypes.create_string_buffer(32 * 32)
    wait = struct.pack('qq', 5, 0)
    found = call(GETEVENTS, context.value, count, 32, events, wait)
    told = [struct.unpack_from('QQqq', events, 32 * index) for index in range(found)]
    addresses = [ctypes.addressof(one) for one in requests]
    return sorted((data, addresses.index(place), result, second) for data, place, result, second in told)

def vector(*parts):
    return buffer(b''.join(struct.pack('QQ', ctypes.addressof(part), len(part)) for part in parts)), len(parts)

name = sys.argv[1] + '/requests'
fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
if sys.argv[2:] == ['append']:
    appending = os.open(name, os.O_WRONLY | os.O_APPEND)
    text = buffer(b'again')
    print(submit(request(1, PWRITE, appending, text, 5)), submit(request(2, PWRITE, fd, text, 5, 0, os.RWF_APPEND)), os.stat(name).st_size)
    sys.exit()

print('write', submit(request(7, PWRITE, fd, buffer(b'0123456789'), 10, 5)), open(name, 'rb').read())
found = buffer(b'?' * 20)
print('read', submit(request(8, PREAD, fd, found, 20, 3)), found.raw)
print('at the end', submit(request(9, PREAD, fd, found, 20, 15)), submit(request(9, PREAD, fd, found, 0, 0)))
first, second = buffer(b'ab'), buffer(b'cde')
parts, count = vector(first, second)
print('vectors', submit(request(1, PWRITEV, fd, parts, count, 20), request(2, PWRITE, fd, first, 2, 30)), open(name, 'rb').read())
one, two = buffer(b'..'), buffer(b'.....')
parts, count = vector(one, two)
print('into vectors', submit(request(3, PREADV, fd, parts, count, 20)), one.raw, two.raw)
print('sync', submit(request(4, FSYNC, fd), request(5, FDSYNC, fd)), submit(request(4, FSYNC, fd, None, 1)))
print('flags', submit(request(6, PWRITE, fd, first, 2, 0, os.RWF_DSYNC)), submit(request(6, PWRITE, fd, first, 2, 0, 0x40000000)))
other = os.memfd_create('other')
print('mixed', submit(request(1, PWRITE, other, first, 2), request(2, PWRITE, fd, second, 3), request(3, PWRITE, other, second, 3, 2)),
      os.pread(other, 9, 0), os.pread(fd, 3, 0))
event = os.eventfd(0, os.EFD_NONBLOCK)
print('event', submit(request(1, PREAD, fd, found, 4, 0, 0, 1, event), request(2, PREAD, other, found, 4, 0, 0, 1, event)), os.eventfd_read(event))
reading, writing, by_path = os.open(name, os.O_RDONLY), os.open(name, os.O_WRONLY), os.open(name, os.O_PATH)
good = request(1, PREAD, fd, found, 1)
for what, bad in (('closed', request(2, PREAD, 800, found, 1)), ('read only', request(2, PWRITE, reading, found, 1)),
                  ('write only', request(2, PREAD, writing, found, 1)), ('path', request(2, PREAD, by_path, found, 1)),
                  ('path sync', request(2, FSYNC, by_path)),
                  ('offset', request(2, PREAD, fd, found, 1, -1)), ('offset and flags', request(2, PWRITE, fd, first, 1, -1, os.RWF_DSYNC)),
                  ('reserved', request(2, PWRITE, fd, buffer(b'never'), 5, 0, 0, 0, 0, 1)),
                  ('operation', request(2, 77, fd)), ('nothing', request(2, NOOP, fd)),
                  ('event', request(2, PREAD, fd, found, 1, 0, 0, 1, fd))):
    print(what, submit(bad), submit(good, bad, good)[0::2])
print('untouched', os.pread(fd, 5, 0), os.lseek(fd, 0, os.SEEK_CUR))
print('not open', {submit(request(2, PREAD, number, found, 1))[0] for number in range(30, 2000) if not os.path.exists(f'/proc/self/fd/{number}')})
print('folder', submit(request(2, PREAD, os.open(sys.argv[1], os.O_RDONLY), found, 1)))
print('ready', submit(request(3, POLL, fd, select.POLLIN)), submit(request(3, POLL, fd, select.POLLIN, 1)))
print('count', call(SUBMIT, context.value, -1, None), call(SUBMIT, context.value, 0, None), call(SUBMIT, context.value, 1, None))
print('context', call(SUBMIT, 4096, 1, (ctypes.c_void_p * 1)(ctypes.addressof(good))))
many = [request(index, PREAD, fd, found, 1) for index in range(20)]
print('many', submit(*many)[0], call(DESTROY, context.value))
