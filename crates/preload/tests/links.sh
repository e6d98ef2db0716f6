# Links in folder $2 that lead to folder $1, by every kind of call. Prints nothing that varies.
exec 2>&1
cd "$2" || exit 1
ln -s "$1" into
ln -s into deeper
mkdir folder
ln -s ../into/file folder/relative
ln -s "$1/new" fresh
ln -s nowhere dangling
ln -s loop loop
echo one >into/file
cat into/file deeper/file folder/relative "$2//./folder/../into/file" folder/../deeper/file
stat -L -c '%F %s' into/file; stat -c %F folder/relative into deeper/
stat -L -c '%F %s' folder/relative
readlink into deeper folder/relative
readlink -f folder/relative
echo two >fresh && cat "$1/new"; cat fresh/ && echo not a folder
echo three >>into/new && wc -l into/new
mkdir into/made && touch into/made/a && mv into/made/a deeper/b && mv "$1/b" into/c && ln into/c deeper/d
mv into/c here; ls . into/
mv here deeper/c; ln -s file into/link; cat into/link
ls -p into deeper/made; find -L . | sort; find . | sort
chmod 600 into/c && chown 12:13 into/c; truncate -s 7 deeper/c; touch -d @1000 into/c; stat -c '%a %u %g %Y %s' into/c
cd into && pwd && pwd -P && cat file && cd .. && pwd && cd "$2/deeper/made" && pwd -P && cd "$2"
cat into/file/ deeper/made/; cat into/file/none; cat into/none; cat dangling; cat loop; cat into/none/none; mkdir into/none/none; rmdir into; rm into/made
test -e into/file && test ! -e into/none && test -L into && test -d into && echo tested
printf '#!/bin/sh\necho script "$0" "$@"\n' >into/a_script; chmod +x into/a_script; into/a_script a b; ./deeper/a_script c
cp /bin/true into/program; into/program && ./deeper/program && echo ran
PATH=$2/deeper:$PATH; a_script found
python3 - <<'END'
import ctypes, errno, os, socket, struct
here = os.open('.', os.O_RDONLY)
print(os.read(os.open('into/file', os.O_RDONLY, dir_fd=here), 9), sorted(os.listdir('deeper')))
libc = ctypes.CDLL(None, use_errno=True)
def open_how(path, resolve=0):
    fd = libc.syscall(437, here, path, struct.pack('QQQ', os.O_RDONLY, 0, resolve), 24)
    return os.read(fd, 9) if fd >= 0 else errno.errorcode[ctypes.get_errno()]
print(open_how(b'into/file'), open_how(b'into/none'), open_how(b'into/file', 4), open_how(b'into/file', 8), open_how(b'into/file', 16))
below = os.open('folder', os.O_RDONLY)
print(os.read(os.open('relative', os.O_RDONLY, dir_fd=below), 9), os.stat('../into/file', dir_fd=below).st_size)
os.setxattr('into/file', 'user.a', b'value')
print(os.getxattr('folder/relative', 'user.a'), os.statvfs('into').f_namemax)
os.mkfifo('into/pipe')
print(os.access('into/pipe', os.R_OK), oct(os.stat('deeper/pipe').st_mode))
os.rename('into/file', 'into/renamed'); os.link('into/renamed', 'deeper/file', follow_symlinks=False)
os.symlink('renamed', 'deeper/symlink'); print(os.readlink('into/symlink'), os.path.realpath('into/symlink'))
outside = os.path.realpath('.') + '/beside'
os.mkdir(outside); open(outside + '/there', 'w').close(); open('into/here', 'w').close(); os.symlink(os.getcwd() + '/into', outside + '/back')
def said(call, *arguments):
    try: return call(*arguments)
    except OSError as error: return errno.errorcode[error.errno]
# Between two file systems that are one on the disk: what fails on the way there.
for inside in 'into/here', 'into/nothing', 'into/none/x':
    for other in 'none/x', 'there/x', 'loop/x':
        print(inside, other, [said(call, *pair) for call in (os.rename, os.link) for pair in ((inside, f'{outside}/{other}'), (f'{outside}/{other}', inside))])
print('exists', said(os.link, 'into/here', outside + '/there'), said(os.link, outside + '/there', 'into/here'), said(os.link, outside + '/none', 'into/new-one'))
print('back', said(os.rename, os.path.realpath('into') + '/here', outside + '/back/moved'), said(os.link, outside + '/back/moved', os.path.realpath('into') + '/again'), sorted(os.listdir(outside)), os.stat('into/again').st_nlink)
os.symlink(outside + '/back/again', 'into/round'); os.symlink(outside + '/back/round2', 'into/round2')
print('round', said(os.stat, 'into/round') == os.stat('into/again'), os.path.realpath('into/round') == os.path.realpath('into/again'), said(open, 'into/round2'))
os.symlink(outside + '/back', 'into/out'); print(said(os.rename, 'into/out/round2', 'into/out/round3'), os.path.islink('into/round3')); os.unlink('into/round3'); os.unlink('into/out'); os.unlink('into/round')
os.unlink(outside + '/back'); os.unlink(outside + '/there'); os.rmdir(outside); os.unlink('into/again'); os.unlink('into/moved')
server = socket.socket(socket.AF_UNIX); server.bind('into/socket'); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect('deeper/socket'); client.send(b'by a link'); print(server.accept()[0].recv(9))
os.unlink('into/socket')
os.chdir('deeper'); print(os.getcwd(), os.path.exists('renamed'))
END
rm -r into/* && ls -A into/ && rm into deeper && ls -A "$1"
