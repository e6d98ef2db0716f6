# What every POSIX shell does with files: redirections, pipes, here-documents, jobs, traps. Run by bash and by dash.
cat > job.sh <<'JOB'
echo to file > a; echo more >> a; cat < a; cat a a > b 2>&1; wc -l < b; : > c; [ -s c ] || echo empty; > d; ls
cat nothing > e 2>&1; cat e; cat nothing 2> f; cat f; { echo out; echo err >&2; } > g 2> h; cat g h; { echo out; echo err >&2; } 2>&1 > i | cat; cat i
echo x <> rw; cat rw; exec 3<> rw; echo written >&3; exec 3>&-; cat rw; exec 4< b; read one <&4; read two <&4; echo "$one/$two"; exec 4<&-; read x <&4
exec 5> five 6>&5; echo a >&5; echo b >&6; exec 5>&-; echo c >&6; exec 6>&-; cat five; (exec 7> seven; echo in child >&7; sh -c 'echo in grandchild >&7'); cat seven
set -C; echo refused > a; echo forced >| a; cat a; echo new > new; set +C; cat a
cat << END
here $((1+1)) $(cat a)
END
cat <<- 'END'
	literal $x
	END
i=0; while [ $i -lt 9000 ]; do echo "line $i of a document that is longer than a pipe holds"; i=$((i+1)); done > text
{ echo 'cat > big <<END'; cat text; echo END; echo 'wc big; cmp big text && echo big here-document'; } > big.sh; . ./big.sh
sh big.sh; (sh ./big.sh); cat text | sh -c 'cat > piped'; cmp piped text && echo piped; cat < text | tail -n 1
while read line; do case $line in *5) echo "$line";; esac; done < b; for f in *; do echo "$f"; done | sort -r | head -3; echo [a-c] ?ive n*; echo nomatch*; echo ./*.sh
mkdir -p sub/dir; cd sub; echo rel > rel; cat ../sub/rel; (cd dir; echo deep > ../deep; pwd); cat deep; cd dir; cd ../..; pwd; cd -; cd ..; cd nowhere; cd a; cd sub/../sub && pwd -P; ln -s sub ../to; cd ../to/dir; pwd; pwd -P; cd ..; pwd; cd ..
trap 'echo leaving > left' EXIT; (trap 'echo sub > subleft' EXIT; exit 3); echo $?; cat subleft; sh -c 'trap "echo got term > term; exit 0" TERM; kill -TERM $$; sleep 1'; cat term; trap 'echo usr >> usr' USR1; kill -USR1 $$; kill -USR1 $$; cat usr
(echo background > bg) & wait $!; cat bg; { echo b1; sleep 0.1; echo b2; } > bgs & { echo b3 > bgt; } & wait; cat bgs bgt; sh -c 'exit 7' & wait $!; echo $?; sh -c 'echo up > up; exec sleep 30' & until [ -s up ]; do :; done; kill $!; wait $! 2>/dev/null; echo $?
printf '#!/bin/sh\necho "script $0 $*"; exit 4\n' > script; chmod +x script; ./script a b; echo $?; PATH=$PWD:$PATH script c; "$PWD/script"; sh script; chmod -x script; ./script 2>&1 | sed 's/.*: //'; echo 'echo no interpreter line' > plain; chmod +x plain; ./plain
printf '#!./script2\n' > odd; printf '#!/bin/sh\necho odd $1\n' > script2; chmod +x odd script2; ./odd | head -1; printf '#!/no/such\n' > bad; chmod +x bad; ./bad 2>&1 | sed 's/.*: //'; printf '#!/usr/bin/env -S sh -e\necho env\n' > env; chmod +x env; ./env; printf '#!/bin/cat\ntext\n' > self; chmod +x self; ./self; cp /bin/echo mine; ./mine binary on the store; ln -s mine linked; ./linked link; ./sub 2>&1 | sed 's/.*: //'; ./missing 2>&1 | sed 's/.*: //'; : > nothing; chmod +x nothing; ./nothing; echo $?
f() { echo function > "$1"; return 2; }; f func; echo $?; cat func; eval 'echo eval > ev'; cat ev; . ./ev 2>/dev/null; x=$(cat a; echo sub > side); echo "$x"; cat side; echo `cat a`; x=$(cat < a) ; echo $x; test -f a && test ! -d a && [ -d sub ] && echo tests; umask 027; echo > masked; stat -c %a masked; umask 022
echo one | { read x; echo "$x" > got; cat got; } | cat > last; cat last; (echo err >&2) 2> errs; cat errs; echo closed >&- ; ls 3>&1 >&- 2> lserr; cat lserr; cat <&-; exec 8<a; cat <&8; cat <&8; exec 8<&-; cat /dev/fd/9 9<a; cat /proc/self/fd/0 < a; echo via > /dev/fd/1
exec > rest 2>&1; echo everything else; pwd; ls -d /nowhere; echo done
JOB
for shell in bash dash "bash --posix" "busybox sh"; do
    mkdir "${shell#* -}"; cd "${shell#* -}"; cp ../job.sh .; $shell ./job.sh 2>&1 | grep -v wait_for; echo "${PIPESTATUS[0]}"; cat rest left; cd ..
done
