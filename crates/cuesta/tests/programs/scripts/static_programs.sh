# Statically linked programs, alone and as children of others: what they inherit is theirs, and shared as ever.
cat > $OUTSIDE/put.c <<'C'
#include <stdio.h>
int main(int n, char **v) { for (int i = 1; i < n; i++) puts(v[i]); return 0; }
C
cat > $OUTSIDE/line.c <<'C'
#include <unistd.h>
int main() { char c; while (read(0, &c, 1) == 1) { write(1, &c, 1); if (c == '\n') break; } return 0; }
C
cat > $OUTSIDE/where.c <<'C'
#include <stdio.h>
#include <unistd.h>
int main() { char name[4096]; puts(getcwd(name, sizeof name) ? name : "nowhere"); return 0; }
C
# What it reads it adds, and says when it did; it ends with its input.
cat > $OUTSIDE/add.c <<'C'
#include <unistd.h>
int main() { char c; while (read(0, &c, 1) == 1) { write(3, &c, 1); if (c == '\n') write(1, ".\n", 2); } return 0; }
C
for name in put line where add; do gcc -static -O1 -w -o $OUTSIDE/$name $OUTSIDE/$name.c; done
PATH=$OUTSIDE:$PATH
put one > out; cat out; put two >> out; cat out
{ echo a; put b; echo c; put d; /bin/echo e; } > group; cat group
{ echo a; put b; } >> group; cat group
printf '1\n2\n3\n4\n' > in; { line; read x; echo "shell $x"; line; sed -n 1p; } < in
mkdir folder; cd folder; put here > file; where; ls; cd ..; (cd folder; exec where)
cp $OUTSIDE/put own; ./own own; $D/own by-its-path; env -C folder ../own elsewhere
ln -s own linked; ./linked by-a-link; ln -s folder way; cd way; where; $D/linked there; cd ..; rm linked way
env put wrapped > file; (exec env put once more >> file); nohup put twice >> file 2> /dev/null; sh -c 'put last' >> file; cat file
python3 -c 'import subprocess; print("one", flush=True); subprocess.run(["put", "two"]); print("three")' > file; cat file; rm file
printf '#!%s script\n' $D/own > script; chmod +x script; ./script
exec 7> gone; rm gone; put lost >&7; exec 7>&-
exec 8<> gone; rm gone; put hidden >&8; put more >&8; cat /proc/self/fd/8; exec 8>&-
exec 7> old; mv old new; put moved >&7; echo on >&7; put further >&7; exec 7>&-; cat new
echo 'lives in its child' > locked
mkfifo $OUTSIDE/input $OUTSIDE/said
(exec 9< locked; flock 9; exec add < $OUTSIDE/input > $OUTSIDE/said 3> /dev/null) & exec 5> $OUTSIDE/input 6< $OUTSIDE/said
echo begun >&5; read x <&6; flock -n locked true; exec 5>&- 6<&-; wait; flock -w 60 locked true
(exec 3> both; add < $OUTSIDE/input > $OUTSIDE/said & exec 5> $OUTSIDE/input 6< $OUTSIDE/said
    for i in 1 2 3; do echo "child $i" >&5; read x <&6; echo "parent $i" >&3; done; exec 5>&-; wait); cat both
cp $OUTSIDE/put broken; truncate -s 100 broken; ./broken 2> /dev/null > still; echo "$?"; echo on > still; cat still
(cd folder; exec 4> ../kept; exec ../broken 2> /dev/null); ls
chmod 711 own; ./own executable; chmod 644 own; ./own 2> /dev/null
mkfifo pipe; line < pipe & echo through > pipe; wait; (put back > pipe & cat pipe; wait); rm pipe
rm -rf folder own script
