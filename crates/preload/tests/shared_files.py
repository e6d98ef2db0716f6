# What processes share of open files, and transfers between descriptors, in directory sys.argv[1]. Prints nothing that varies.
import errno, fcntl, mmap, os, sys

D = sys.argv[1] + '/shared'
os.mkdir(D)
os.chdir(D)

def said(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]

def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(child, 0)

print('flags changed by a child are changed for its parent')
shared = os.open('appended', os.O_RDWR | os.O_CREAT | os.O_APPEND)
os.write(shared, b'0123456789')
in_child(lambda: fcntl.fcntl(shared, fcntl.F_SETFL, 0))
print(fcntl.fcntl(shared, fcntl.F_GETFL) & os.O_APPEND, os.pwrite(shared, b'XY', 2), os.fstat(shared).st_size)
fcntl.fcntl(shared, fcntl.F_SETFL, os.O_APPEND)
in_child(lambda: os.write(shared, b'end') or print(fcntl.fcntl(shared, fcntl.F_GETFL) & os.O_APPEND))
print(os.pread(shared, 100, 0))

print('a working directory that moves keeps being one')
os.makedirs('a/b/c')
os.symlink('a/b', 'link')
os.chdir('link/c')
print(os.getcwd().replace(D, 'D'))
os.rename('../../../a', '../../../moved')
print(os.getcwd().replace(D, 'D'))
in_child(lambda: os.rename(D + '/moved/b', D + '/b'))
print(os.getcwd().replace(D, 'D'))
os.rmdir(D + '/b/c')
print(said(os.getcwd))
os.chdir(D)

print('a file is no directory, whatever its mode')
print(said(os.chdir, 'appended'), said(os.fchdir, shared), said(os.chdir, 'nothing'))

print('transfers: bad ends, ends that append, one description at both ends')
plain = os.open('plain', os.O_RDWR | os.O_CREAT)
os.write(plain, bytes(range(100)))
reader, writer, folder = os.open('plain', os.O_RDONLY), os.open('plain', os.O_WRONLY), os.open('.', os.O_RDONLY)
pipe = os.pipe()
for source, target in ((plain, 99), (99, plain), (reader, reader), (writer, writer), (folder, plain), (plain, folder),
                       (plain, shared), (pipe[0], plain), (plain, pipe[1])):
    os.lseek(plain, 0, os.SEEK_END)
    print(said(os.copy_file_range, source, target, 10), said(os.sendfile, target, source, None, 10))
os.lseek(plain, 40, os.SEEK_SET)
print(os.sendfile(os.dup(plain), plain, None, 30), os.lseek(plain, 0, os.SEEK_CUR), os.pread(plain, 100, 0) == bytes(range(100)))
for start, target, count in ((100, 100, 50), (90, 95, 50), (0, 5, 50), (50, 0, 50)):
    print(said(os.copy_file_range, plain, plain, count, start, target))
print(os.pread(plain, 200, 0).hex())

print('however many were shared before')
for _ in range(100):
    many = [os.open('plain', os.O_RDONLY) for _ in range(200)]
    in_child(lambda: None)
    for fd in many:
        os.close(fd)
last = os.open('plain', os.O_RDONLY)
in_child(lambda: os.read(last, 7))
print(os.lseek(last, 0, os.SEEK_CUR))

print('a directory cannot be mapped')
print(said(mmap.mmap, folder, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ))
