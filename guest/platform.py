"""What a store makes of the platform below it: where stores are durable, and lines that are poisoned. Run by a guest's job, as root:
platform.py CUESTA STORE DOMAIN [NODE]. What is wrong is told in a line, the rest in a last one.

A line is poisoned as by a machine check: the kernel has it in the disk's list of bad blocks, takes its page away from whoever has it
mapped, and sends each of them a signal. Who touches it after that gets another.
"""

import json
import os
import signal
import subprocess
import sys

from hanging import tell_after

CUESTA, STORE, DOMAIN = sys.argv[1:4]
PAGE = 4096
FILE_BYTES = 1 << 20
INJECT = """
import ctypes, fcntl, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
file, at = os.open(sys.argv[1], os.O_RDWR), int(sys.argv[2])
page = libc.mmap(None, 4096, 3, 1, file, ctypes.c_long(at))
ctypes.string_at(page, 1)
block, = struct.unpack('i', fcntl.ioctl(file, 1, struct.pack('i', at // 4096)))
with open('/sys/block/pmem0/badblocks', 'w') as bad: bad.write(f'{block * 8} 8')
if libc.madvise(ctypes.c_void_p(page), 4096, 100): sys.exit(f'MADV_HWPOISON: {ctypes.get_errno()}')
"""
PROGRAM = """
import os, sys
file = os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
def write(at, data): return os.pwrite(file, data, at)
def read(at, size): return os.pread(file, size, at)
def fill():
  count = 0
  try:
    while True:
      with open(f'/cuesta/{count}', 'wb') as new: new.write(b'%6d' % count * 500)
      count += 1
  except OSError as error: return count, error.strerror
for line in sys.stdin:
  try: print(eval(line), flush=True)
  except OSError as error: print(error.strerror, flush=True)
"""
FAILED = 'Input/output error'


def expect(what, found, expected):
    if found != expected:
        sys.exit(print(f'wrong: {what}: {found!r}, not {expected!r}', flush=True))


def cuesta(*arguments):
    return subprocess.run([CUESTA, *arguments], capture_output=True, text=True)


def status():
    return json.loads(cuesta('status', '--json', STORE).stdout)


def poison(path, offset):
    """Poisons the page of a file."""
    injected = subprocess.run([sys.executable, '-c', INJECT, path, str(offset)], capture_output=True, text=True)
    expect('whoever finds it is told', (injected.returncode, injected.stderr), (-signal.SIGBUS, ''))


class Program:
    def __init__(self):
        self.child = subprocess.Popen([CUESTA, 'run', '--store', STORE, '--', 'python3', '-c', PROGRAM], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, expression):
        print(expression, file=self.child.stdin, flush=True)
        return self.child.stdout.readline().rstrip('\n')

    def end(self):
        self.child.stdin.close()
        expect('the program ended', self.child.wait(), 0)


def extents():
    explained = json.loads(cuesta('explain', '--store', STORE, '--json', 'file').stdout)['extents']
    return [(extent['file_offset'], extent['address'], extent['bytes']) for extent in explained]


def an_arena_page():
    daemon = status()['pid']
    program = Program()
    expect('written', program.ask(f"write(0, b'a' * {FILE_BYTES})"), str(FILE_BYTES))
    program.end()
    # Whoever has written it may read it out of its log.
    program = Program()
    offset, address, length = extents()[0]
    expect('it has neighbours', length > 4 * PAGE, True)
    expect('read', program.ask(f'len(read(0, {FILE_BYTES}))'), str(FILE_BYTES))
    arena_bytes = status()['geometry']['arena_bytes']
    path = f'{STORE}/nvm/arenas/arena-{address // arena_bytes:06}'
    bad = offset + 2 * PAGE
    poison(path, (address + 2 * PAGE) % arena_bytes)
    expect('the page is read', program.ask(f'read({bad}, 1)'), FAILED)
    expect('its neighbour is read', program.ask(f'len(read({bad + PAGE}, 4096))'), '4096')
    expect('a part is written', program.ask(f"write({bad}, b'b' * 10)"), '10')
    extents()
    expect('what is left of it is read', program.ask(f'read({bad + 10}, 1)'), FAILED)
    expect('all of it is written', program.ask(f"write({bad}, b'c' * {PAGE})"), str(PAGE))
    extents()
    expect('it is read again', program.ask(f"read(0, {FILE_BYTES}) == b'a' * {bad} + b'c' * {PAGE} + "
                                           f"b'a' * {FILE_BYTES - bad - PAGE}"), 'True')
    found = status()
    expect('the daemon goes on', (found['pid'], found['refuses_writes'], found['bad_blocks']), (daemon, None, 1))
    program.end()


def a_page_of_a_log():
    daemon = status()['pid']
    program = Program()
    expect('it has a log', program.ask("write(0, b'd')"), '1')
    inside = {int(pid) for pid in os.listdir('/proc') if pid.isdigit() and os.path.exists(f'/proc/{pid}/maps')}
    mapped = {line.split()[-1] for pid in inside if is_program(pid) for line in open(f'/proc/{pid}/maps') if '/logs/seg-' in line}
    expect('logs', len(mapped), 1)
    poison(mapped.pop(), 512 << 10)
    answer = program.ask('fill()')
    expect('it cannot be logged', answer.endswith(f"'{FAILED}')"), True)
    count = int(answer.strip('(').split(',')[0])
    found = status()
    expect('the daemon goes on', (found['pid'], found['refuses_writes']), (daemon, None))
    program.end()
    other = Program()
    expect('all that was acknowledged is there', other.ask(
        f"all(open(f'/cuesta/{{n}}', 'rb').read() == b'%6d' % n * 500 for n in range({count}))"), 'True')
    expect('others write', other.ask("write(0, b'e')"), '1')
    other.end()
    return count


def is_program(pid):
    with open(f'/proc/{pid}/cmdline', 'rb') as line:
        return line.read().split(b'\0')[:2] == [b'python3', b'-c']


# Whoever has a page mapped is told, not only whoever finds it.
with open('/proc/sys/vm/memory_failure_early_kill', 'w') as early:
    early.write('1')
tell_after(300)
made = cuesta('mkfs', STORE, '--medium', 'pmem', '--nvm', '256M')
way = {'cpu_cache': 'eADR', 'memory_controller': ': ADR'}[DOMAIN]
expect(f'mkfs: {made.stderr}', (made.returncode, way in made.stdout), (0, True))
expect('started', cuesta('run', '--store', STORE, '--', 'true').returncode, 0)
found = status()
expect('where stores are durable', found['persistence_domain'], DOMAIN)
an_arena_page()
count = a_page_of_a_log()
expect('stopped', cuesta('stop', STORE).returncode, 0)
expect('checked', cuesta('fsck', STORE).returncode, 0)
print(f'platform {DOMAIN}: a poisoned page of an arena, and one of a log behind {count} files', flush=True)
os._exit(0)
