# Programs and scripts that lie in directory $1, executed in every way. Prints nothing that varies.
D=$1; O=$(mktemp -d); mkdir -p $D/bin $D/sub; cd $D/bin
say() { echo "$@" | sed "s#$O#O#g"; }
printf '#!/bin/sh\necho "$0 in $(dirname "$0"): $# $*"; cat /proc/$$/comm\n' > script; chmod +x script
printf '#!/bin/sh\necho "$0: $# $*"\n' > quiet; chmod +x quiet
say "== paths"; ./script a 'b c'; ../bin/script; $D/bin/script x; (cd /; $D/bin/../bin/script); (cd ../sub; ../bin/script y)
PATH=$D/bin:$PATH; script from PATH; (PATH=../bin:/bin:/usr/bin; cd ../sub; script relative PATH)
say "== symbolic links"; ln -s script link; ./link z; ln -s /bin/echo out; ./out through a link
ln -s $D/sub/../bin/link back; ./back again; ln -s loop loop; ./loop; echo "$?"; ln -s nowhere dangling; ./dangling; echo $?
say "== interpreters"; printf '#!%s/bin/script one two\nx\n' $D > nested; chmod +x nested; ./nested three
printf '#!%s/bin/nested four\n' $D > deeper; chmod +x deeper; ./deeper five
printf '#!%s/bin/script\n' $D > $O/outside; chmod +x $O/outside; $O/outside six | sed "s#$O#O#g"
printf '#!/usr/bin/env -S sh -x\necho seven\n' > env; chmod +x env; ./env 2>&1
cp /bin/cat $D/bin/interpreter; printf '#!%s/bin/interpreter\nmyself\n' $D > reads; chmod +x reads; ./reads
ln -s /bin/sh shell; printf '#!%s/bin/shell\necho eight\n' $D > linked; chmod +x linked; ./linked
for n in 1 2 3 4 5 6 7; do printf '#!%s/bin/chain%s\n' $D $((n + 1)) > chain$n; chmod +x chain$n; done
cp /bin/echo chain8; for n in 7 4 3 2 1; do ./chain$n nine | sed 's/.*Too many/Too many/'; done
say "== refusals"; printf '#!/nonexistent/interpreter\n' > broken; chmod +x broken; ./broken 2>&1 | tail -1; printf 'echo text\n' > text; chmod +x text; ./text
cp script plain; chmod -x plain; ./plain; echo $?; ./; echo $?; ./missing; echo $?; : > empty; chmod +x empty; ./empty; echo $?
printf '#!\n' > bare; chmod +x bare; ./bare; echo $?; ./script/x; echo $?; chmod 111 script; ./script unreadable; chmod 755 script
say "== binaries"; cp /bin/sleep nap; ./nap 0 && echo napped; cp /bin/bash myshell; ./myshell -c 'cat /proc/$$/comm; echo $0'
python3 -c 'import shutil, sys; shutil.copy(sys.executable, "snake")'; ./snake -c 'import os; print(os.readlink("/proc/self/exe"), open("/proc/self/comm").read())'
python3 - $D/bin <<'P'
import os, subprocess, sys
D = sys.argv[1]
os.chdir(D)
def run(call, *arguments):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try: call(*arguments)
        except OSError as error: print('errno', error.errno); sys.stdout.flush()
        os._exit(9)
    return os.waitstatus_to_exitcode(os.wait()[1])
def opened(name, flags=os.O_RDONLY, inheritable=True):
    fd = os.open(name, flags)
    os.dup2(fd, 40, inheritable)
    os.close(fd)
    return 40
sys.stdout.flush()
print('descriptor', run(os.execve, opened('quiet'), ['argv0', 'arg'], os.environ))
print('descriptor', run(os.execve, opened('nap'), ['argv0', '0'], os.environ))
print('path only', run(os.execve, opened('nap', os.O_PATH), ['argv0', '0'], os.environ))
print('link', run(os.execv, '/proc/self/fd/40', ['argv0', '0']))
print('empty environment', run(os.execve, 'script', ['argv0', 'arg'], {'PATH': '/usr/bin:/bin'}))
print('no arguments', subprocess.call(['./script']), subprocess.call(['argv0', 'x'], executable='./script'))
print('spawn', os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn('script', ['argv0', 'arg'], os.environ), 0)[1]))
print('elsewhere', subprocess.call([D + '/script', 'there'], cwd='/'), subprocess.call(['./script', 'there'], cwd=D + '/../bin'))
big = 'x' * 100000
print('large', len(subprocess.check_output([D + '/script', big])) > 100000)
P
say "== venv"; python3 -m venv --without-pip $D/venv && $D/venv/bin/python -c 'import sys; print(sys.prefix, sys.executable)'
printf '#!%s/venv/bin/python3\nimport sys; print(sys.prefix, sys.argv)\n' $D > tool; chmod +x tool; ./tool ten
say "== gone while it runs"
for how in 'unlink "own"' 'rename "quiet", "own"' 'rename "own", "moved"'; do
    cp nap quiet; cp $(which perl) own
    ./own -e '$| = 1; '"$how"'; print readlink("/proc/self/exe"), "\n" if $ARGV[0] !~ /moved/; exec "/proc/self/exe", "-e",
        q(print readlink("/proc/self/exe"), "\n" if $ARGV[0] !~ /moved/; print "again @ARGV\n"; exec "/proc/self/exe", "-e", "print 5"), @ARGV' "$how"
done
rm -r $O
