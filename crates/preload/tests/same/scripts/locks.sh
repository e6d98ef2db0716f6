# Locks that are waited for, in circles.
cat > $OUTSIDE/circles.py <<'P'
import errno, fcntl, os, struct, sys, threading
OFD_SETLK, OFD_SETLKW = 37, 38

def open_file(name):
    return os.open(name, os.O_RDWR | os.O_CREAT, 0o600)

def lock(fd, command, first=0, count=1, kind=fcntl.F_WRLCK):
    fcntl.fcntl(fd, command, struct.pack('hhqqi4x', kind, 0, first, count, 0))

def try_wait(fd, command, first=0, count=1):
    try: lock(fd, command, first, count)
    except OSError as error: return errno.errorcode[error.errno]
    return 'granted'

def until_it_waits(thread, command):
    while True:
        with open(f'/proc/{thread}/syscall') as file:
            words = file.read().split()
        if len(words) > 2 and int(words[2], 16) == command: return

def children(count, body):
    """Each child gets its number and where to say a line; answers the lines."""
    from_them, to_us = os.pipe()
    all_ready, ready = os.pipe()
    go, going = os.pipe()
    for number in range(count):
        if os.fork() == 0:
            os.close(going)
            def meet():
                os.write(ready, b'.'); os.read(go, 1)
            os.write(to_us, f'{body(number, meet)}\n'.encode())
            os._exit(0)
    os.close(to_us); os.close(go)
    for _ in range(count): os.read(all_ready, 1)
    os.close(going)
    with os.fdopen(from_them) as file: lines = sorted(file.read().split())
    for _ in range(count): os.wait()
    return lines

def circle(files):
    def body(number, meet):
        own, next_one = open_file(files[number]), open_file(files[(number + 1) % len(files)])
        # Closing one of a file's descriptors gives its locks up: both stay open until the end.
        byte, next_byte = number, (number + 1) % len(files)
        lock(own, fcntl.F_SETLK, byte)
        meet()
        return try_wait(next_one, fcntl.F_SETLKW, next_byte)
    return children(len(files), body)

print('one file', circle(['file'] * 2)); print('two files', circle(['one', 'two'])); print('five', circle(list('abcde')))

# A chain is no circle.
def chain(number, meet):
    fd = open_file('chain')
    lock(fd, fcntl.F_SETLK, number)
    meet()
    return try_wait(fd, fcntl.F_SETLKW, number + 1)
print('chain', children(3, chain))

# Whoever has a lock of an open file description may have it given up by another thread.
first, second = open_file('descriptions'), open_file('descriptions')
lock(first, OFD_SETLK, 0); lock(second, OFD_SETLK, 1)
said, waiting = [], []
def of_description(fd, byte):
    waiting.append(threading.get_native_id())
    said.append(try_wait(fd, OFD_SETLKW, byte))
    lock(fd, OFD_SETLK, 0, 2, fcntl.F_UNLCK)
threads = [threading.Thread(target=of_description, args=pair) for pair in ((first, 1), (second, 0))]
for thread in threads:
    thread.start()
while len(waiting) < 2: pass
for thread in waiting: until_it_waits(thread, OFD_SETLKW)
lock(first, OFD_SETLK, 0, 1, fcntl.F_UNLCK)
for thread in threads: thread.join()
print('descriptions', said)
P
timeout 20 python3 $OUTSIDE/circles.py; echo $?
