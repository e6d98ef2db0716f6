# fsync and fdatasync of a descriptor: of what it is now, and not of what it was.
python3 - <<'PROGRAM'
import errno, os

def sync(what, descriptor):
    said = []
    for call in os.fsync, os.fdatasync:
        try:
            call(descriptor)
            said.append('done')
        except OSError as error:
            said.append(errno.errorcode[error.errno])
    print(f'{what}:', *said, flush=True)

file = os.open('file', os.O_RDWR | os.O_CREAT)
os.write(file, b'content')
read_only, path, copy = os.open('file', os.O_RDONLY), os.open('file', os.O_PATH), os.dup(file)
pipe = os.pipe()[1]
sync('a file', file)
sync('opened to read', read_only)
sync('a copy', copy)
sync('a folder', os.open('.', os.O_RDONLY))
sync('a path', path)
sync('a pipe', pipe)
os.dup2(pipe, copy)
sync('a pipe in place of a file', copy)
os.dup2(file, copy)
sync('a file again', copy)
os.dup2(path, copy)
sync('a path in place of a file', copy)
os.close(copy)
sync('nothing', copy)
sync('no number', 1 << 20)

if os.fork() == 0:
    sync('a file, in a child', file)
    sync('a path, in a child', path)
    os.close(file)
    sync('nothing, in a child', file)
    os._exit(0)
os.wait()
sync('a file, a child later', file)

# Its memory is this process's, its descriptors are its own.
put = [(os.POSIX_SPAWN_DUP2, file, pipe), (os.POSIX_SPAWN_DUP2, pipe, read_only), (os.POSIX_SPAWN_CLOSE, file)]
child = os.posix_spawn('/bin/true', ['true'], os.environ, file_actions=put)
sync('a pipe that was a file in a child', pipe)
os.waitpid(child, 0)
sync('the same, later', pipe)
sync('a file that was none in a child', file)
sync('a file that was a pipe in a child', read_only)
PROGRAM
