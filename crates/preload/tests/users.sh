# What programs of another user may do, and what they are told. Started as root; the first argument is a folder that is
# empty, root's, and may be searched by all.
cd / && D=$1
as() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
umask 022
echo readable > $D/readable
echo secret > $D/secret && chmod 600 $D/secret
echo written > $D/writable && chmod 666 $D/writable
printf '#!/bin/sh\necho ran as $(id -u)\n' > $D/script && chmod 755 $D/script
mkdir -m 1777 $D/all && mkdir -m 700 $D/private && mkdir -m 711 $D/searchable && mkdir -m 733 $D/box
mkdir -m 2775 $D/group && chgrp 65534 $D/group
echo x > $D/private/x && echo y > $D/searchable/y && echo theirs > $D/all/roots

echo "== reading"
as cat $D/readable
as cat $D/secret
as cat $D/private/x
as cat $D/searchable/y
as ls $D $D/all
as ls $D/private
as ls $D/searchable
as stat -c '%a %u %g %s %F' $D/secret
as stat -c '%a %u %g %F' $D/private
as test -r $D/secret; echo $?
as test -w $D/writable; echo $?


echo "== by a group of several"
echo shared > $D/shared && chgrp 4242 $D/shared && chmod 460 $D/shared
for groups in 4242 7,4242,9 7,9; do
    setpriv --reuid=65534 --regid=65534 --groups $groups sh -c "cat $D/shared; echo $groups >> $D/shared"
done
cat $D/shared && rm $D/shared

echo "== changing what is others'"
as sh -c "echo no > $D/readable"
as sh -c "echo no >> $D/secret"
as rm -f $D/readable $D/all/roots
as mv $D/all/roots $D/all/mine
as mkdir $D/new
as chmod 777 $D/readable
as chown 65534 $D/readable
as touch $D/readable
as truncate -s 0 $D/readable
as ln -s x $D/link
as sh -c "echo more >> $D/writable" && cat $D/writable

echo "== making its own"
as sh -c "cd $D/all && pwd && echo one > a && mkdir d && mv a d/b && ln d/b c && ln -s d/b l && cat l c && chmod 600 c && stat -c '%a %u %g %h' c"
as sh -c "cd $D/all/d && rm b ../c && cd .. && rmdir d && ls"
as sh -c "echo dropped > $D/box/drop && cat $D/box/drop && ls $D/box"
as sh -c "cd $D/group && echo g > g && mkdir s && stat -c '%a %u %g' g s"
as dd if=/dev/zero of=$D/all/big bs=3M count=4 status=none && stat -c %s $D/all/big
as cp $D/all/big $D/all/copy && cmp $D/all/big $D/all/copy && echo same
as sh -c "(ulimit -f 1; trap '' XFSZ; echo long > $D/all/short; dd if=/dev/zero of=$D/all/short bs=4096 count=1 2>&1 | tail -n 1 | cut -c1-10); stat -c %s $D/all/short"
as $D/script
as sh -c 'for i in 1 2 3 4 5 6 7 8 9; do echo $i > '"$D"'/all/n$i; done; cat '"$D"'/all/n?'
stat -c '%a %u %g' $D/all/n1

echo "== open files of root's"
exec 3< $D/secret 4> $D/log 5>> $D/appended
as cat <&3
echo before >&4
as sh -c "echo from nobody >&4; echo appended >&5; exec cat $D/secret"
as true
echo after >&4
echo as well >&5
exec 3<&- 4>&- 5>&-
cat $D/log $D/appended
{ echo one; as echo two; echo three; as cat $D/readable; echo four; } > $D/mixed
cat $D/mixed
{ read line; echo "root: $line"; as head -c 4; echo "then: $(cat)"; } < $D/mixed
as sh -c "rm -f $D/all/n1; exec 6< $D/all/n2; rm $D/all/n2; cat <&6; (exec cat $D/all/n3) ; ls $D/all"
(cd $D/all && as sh -c 'pwd; cat n4; echo here > made; cat made')
as flock -n $D/all/n5 sh -c "echo locked; flock -n $D/all/n5 echo twice || echo busy"

echo "== becoming another user"
python3 - $D <<'P'
import os, sys
folder = sys.argv[1]
kept = open(folder + '/secret')
mine = open(folder + '/of_root', 'w')
def tried(what):
    try:
        return what()
    except OSError as error:
        return error.strerror
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
print(kept.read(), end='')
mine.write('written afterwards\n')
mine.close()
print(tried(lambda: open(folder + '/secret').read()))
print(tried(lambda: open(folder + '/readable').read()))
print(tried(lambda: os.listdir(folder + '/private')))
open(folder + '/all/of_python', 'w').write('p')
if os.fork() == 0:
    print(kept.seek(0), kept.read(), end='', flush=True)
    print(tried(lambda: os.unlink(folder + '/all/roots')), flush=True)
    os._exit(0)
os.wait()
P
cat $D/of_root; stat -c '%u' $D/all/of_python
python3 - $D <<'P'
import os, sys
folder = sys.argv[1]
os.seteuid(65534)
try:
    open(folder + '/secret')
except OSError as error:
    print(error.strerror)
os.seteuid(0)
print(open(folder + '/secret').read(), end='')
P
su -s /bin/sh nobody -c "cat $D/secret; id -u; echo su > $D/all/su; stat -c %U $D/all/su"
python3 - $D <<'P'
import fcntl, os, struct, sys
name = sys.argv[1] + '/all/locks'
fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
os.fchmod(fd, 0o666)
lock = lambda fd, kind, start, command=fcntl.F_SETLK: fcntl.fcntl(fd, command, struct.pack('hhqqi4x', kind, 0, start, 1, 0))
def tried(what, *arguments):
    try:
        what(*arguments)
        return 'had'
    except OSError as error:
        return error.strerror
def child(act):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        act()
        sys.stdout.flush()
        os._exit(0)
    return pid
def become():
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
def holder(kept, ready, go):
    mine = os.open(name, os.O_RDWR)
    fcntl.flock(mine, fcntl.LOCK_EX)
    lock(mine, fcntl.F_WRLCK, 1)
    if kept:
        become()
    os.write(ready, b'x')
    os.read(go, 1)
for kept in True, False:
    (heard, ready), (go, said) = os.pipe(), os.pipe()
    def act():
        if not kept:
            become()
        holder(kept, ready, go)
    pid = child(act)
    os.read(heard, 1)
    print(tried(fcntl.flock, fd, fcntl.LOCK_SH | fcntl.LOCK_NB), tried(lock, fd, fcntl.F_RDLCK, 1), tried(lock, fd, fcntl.F_WRLCK, 2))
    asked = struct.unpack('hhqqi4x', fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)))
    print(asked[:4], asked[4] == pid)
    os.write(said, b'x')
    os.waitpid(pid, 0)
    fcntl.flock(fd, fcntl.LOCK_EX)
    lock(fd, fcntl.F_WRLCK, 1)
    def waiter():
        become()
        mine = os.open(name, os.O_RDWR)
        other = os.dup(mine)
        print(tried(fcntl.flock, mine, fcntl.LOCK_EX | fcntl.LOCK_NB), tried(lock, mine, fcntl.F_WRLCK, 1), flush=True)
        os.write(ready, b'x')
        lock(mine, fcntl.F_WRLCK, 1, fcntl.F_SETLKW)
        fcntl.flock(mine, fcntl.LOCK_EX)
        print('had both')
        if os.fork() == 0:
            print(tried(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB), tried(lock, other, fcntl.F_WRLCK, 1), flush=True)
            os._exit(0)
        os.wait()
        os.close(other)
        if os.fork() == 0:
            print(tried(lock, mine, fcntl.F_WRLCK, 1), flush=True)
            os._exit(0)
        os.wait()
    pid = child(waiter)
    os.read(heard, 1)
    lock(fd, fcntl.F_UNLCK, 1)
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.waitpid(pid, 0)
    print(tried(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
    fcntl.flock(fd, fcntl.LOCK_UN)
P
as /usr/bin/python3 - $D <<'P'
import os, sys
mine = os.open(sys.argv[1] + '/readable', os.O_RDONLY)
null = os.open('/dev/null', os.O_RDONLY)
for number in range(mine + 20, 1024):
    os.dup2(null, number)
print(os.pread(mine, 100, 0), open(sys.argv[1] + '/readable').read(), flush=True)
os.closerange(mine + 1, 1024)
print(os.pread(mine, 100, 0), os.listdir(sys.argv[1] + '/group'), flush=True)
os.set_inheritable(mine, True)
os.execvp('sh', ['sh', '-c', f'cat <&{mine}; cat {sys.argv[1]}/secret'])
P

echo "== sudo"
sudo -n -u nobody cat $D/readable $D/secret
sudo -n -u nobody sh -c "id -un; echo mine > $D/all/sudos; cat $D/all/sudos; rm -f $D/readable; stat -c '%U %a' $D/all/sudos"
sudo -n -u nobody -g daemon sh -c "id -gn; echo x > $D/all/daemons; stat -c %G $D/all/daemons"
echo piped | sudo -n -u nobody tee $D/all/tee
sudo -n -u nobody ls $D/all > $D/list; cat $D/list
(cd $D/all && sudo -n -u nobody sh -c "pwd; cat sudos")
sudo -n cat $D/secret
sudo -n -E -u nobody flock -n $D/all/sudos echo locked
printf '#!/bin/sh\necho edited >> "$1"\n' > $D/editor && chmod 755 $D/editor
EDITOR=$D/editor sudo -n -e $D/secret 2>&1 < /dev/null; cat $D/secret
exit 0
