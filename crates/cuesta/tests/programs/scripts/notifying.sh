# inotify tells who watches what is done by the kernel's own calls.
cat > $OUTSIDE/watch.py <<'P'
import ctypes, os, struct, subprocess
libc = ctypes.CDLL(None, use_errno=True)
CREATE, DELETE, MOVED_FROM, MOVED_TO, MODIFY, ATTRIB, CLOSE_WRITE, OPEN = 0x100, 0x200, 0x40, 0x80, 2, 4, 8, 0x20
names = {CREATE: 'create', DELETE: 'delete', MOVED_FROM: 'from', MOVED_TO: 'to', MODIFY: 'modify', ATTRIB: 'attributes',
         CLOSE_WRITE: 'written', OPEN: 'open'}
watcher = libc.inotify_init1(os.O_NONBLOCK)
os.mkdir('watched')
assert libc.inotify_add_watch(watcher, b'watched', sum(names)) >= 0
def told():
    try:
        events = os.read(watcher, 65536)
    except BlockingIOError:
        events = b''
    while events:
        _, mask, _, length = struct.unpack('iIII', events[:16])
        name, events = events[16:16 + length].rstrip(b'\0').decode(), events[16 + length:]
        print(*(text for bit, text in names.items() if mask & bit), name)
    print('--')
for script in ['echo a > f', 'echo b >> f', 'mv f g', 'chmod 600 g', 'mkdir d', 'ln g h', 'rm h', 'truncate -s 0 g', 'cat g', 'rm g',
               'rmdir d', 'mkfifo p', 'ln -s x l', 'setfattr -n user.a -v b p 2> /dev/null; rm p l']:
    subprocess.run(script, shell=True, cwd='watched')
    print(script); told()
P
python3 $OUTSIDE/watch.py
