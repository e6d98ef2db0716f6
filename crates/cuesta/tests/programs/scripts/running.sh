# Programs and libraries that lie there are run, and not written meanwhile.
cp /bin/cat /bin/sleep /bin/bash .; ./cat < /dev/null; echo x | ./cat; ./bash -c 'echo $0 $BASH' ; mkdir bin; cp cat bin/mine; PATH=$D/bin:$PATH mine /dev/null
printf '#!./bash\necho script $*\n' > script; ./script 1 2> /dev/null; chmod +x script; ./script 1 2; printf '#!%s/bash -e\nfalse\necho no\n' $D > strict; chmod +x strict; ./strict
printf 'int one(void) { return 1; }' > one.c; printf 'int one(void); int main(void) { return one(); }' > main.c
gcc -shared -fPIC -o libone.so one.c; gcc -o main main.c -L. -lone -Wl,-rpath,$D; ./main; (cd /; $D/main); mv libone.so other.so; ./main 2> /dev/null; LD_PRELOAD=$D/other.so ./main
mkfifo $OUTSIDE/end; ./cat < $OUTSIDE/end & exec 5> $OUTSIDE/end; until [ "$(readlink /proc/$!/exe)" != "$(readlink /proc/$$/exe)" ]; do :; done
(echo > cat) 2> /dev/null; (echo >> cat) 2> /dev/null; truncate -s 0 cat 2> /dev/null; mv cat moved; rm moved; exec 5>&-; wait; ls
(exec 6>> sleep; ./sleep 0 2> /dev/null); ./sleep 0; chmod -x bin/mine; bin/mine 2> /dev/null; rm -r *
