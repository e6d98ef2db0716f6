# Programs that lie in directory $1, started again and again, while they change and stay. Prints nothing that varies.
cd "$1" || exit
mkdir p && cd p || exit
printf '#!/bin/sh\necho one $#\n' >script; chmod +x script
for n in 1 2 3 4; do ./script $n; done
printf '#!/bin/sh\necho two $#\n' >script
for n in 1 2 3; do ./script $n; done
# A program that is written over, replaced, removed and made again, by this process and by others.
cp /bin/echo prog
for n in 1 2 3 4; do ./prog echo $n; done
cat /bin/basename >prog
for n in 1 2 3; do ./prog /basename/$n; done
cp /bin/dirname new; mv new prog
for n in 1 2 3; do ./prog /dirname/$n; done
rm prog; ./prog gone 2>/dev/null || echo gone
cp /bin/echo prog
for n in 1 2; do ./prog again $n; done
chmod -x prog; ./prog refused 2>/dev/null || echo refused
chmod +x prog; ./prog allowed
ln prog other; ./other linked; ./other linked
# More programs than are kept.
for n in 1 2 3 4 5 6 7; do cp /bin/echo p$n; done
for turn in 1 2 3; do for n in 1 2 3 4 5 6 7; do ./p$n $turn $n; done; done
# Whose text is far longer than the door hands over in a variable.
long=$(printf '%0200d' 0); mkdir -p $long/$long/$long; cd $long/$long/$long || exit
cp /bin/pwd pwd; ./pwd | wc -c | sed 's/.*/some/'; ./pwd | grep -c "$long/$long/$long"
cd ../../..
exec 8>eight 9>nine; ./p1 to8 >&8; ./p1 to9 >&9; ./p2 again >&8; exec 8>&- 9>&-; cat eight nine
# A program is started with the descriptors it was meant to have.
cp /bin/ls ls; ./ls /proc/self/fd; ./ls /proc/self/fd; ./ls /proc/self/fd; env | grep -c ^CUESTA_TABLE
# Often enough for all that makes later starts faster; and a program that changes and goes in the middle of it.
often() { n=0; while [ $n -lt 30 ]; do "$@" $n; n=$((n+1)); done; }
often ./p1 often; cp /bin/basename p1; often ./p1 often/; mv p2 p1; often ./p1 moved; ln -sf p1 p3; often ./p3 linked
often ./ls -l /proc/self/exe | sed 's/.* -> .*\//to /'
rm p1; ./p1 gone 2>/dev/null || echo gone
