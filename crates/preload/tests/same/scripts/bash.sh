# What bash has beyond POSIX, in scripts that lie on the store.
cat > job <<'JOB'
#!/bin/bash
rm -f sub count late; cat <(echo one) <(cat /etc/hostname > /dev/null; echo two); diff <(seq 3) <(seq 4); echo through > >(cat > sub); while [ ! -s sub ]; do :; done; cat sub; tee >(wc -l > count) < <(seq 9) > /dev/null; while [ ! -s count ]; do :; done; cat count
cat <<< "here string $((6*7))"; read -r x y <<< "a b"; echo $y; big=$(printf 'x%.0s' {1..100000}); cat <<< "$big" | wc -c; mapfile -t lines < <(seq 1000); echo ${#lines[@]} ${lines[999]}; wc -c <<< "$big$big"; while read -r l; do echo ${#l}; done <<< "$big"
{ echo o; echo e >&2; } &> both; cat both; { echo o; echo e >&2; } &>> both; cat both; exec {fd}> auto; echo $((fd>=10)); echo auto >&$fd; exec {fd}>&-; cat auto; exec {fd}<> auto; read -u $fd l; echo $l; echo appended >&$fd; exec {fd}<&-; cat auto
coproc cat; echo coproc >&${COPROC[1]}; read -u ${COPROC[0]} l; echo $l; exec {COPROC[1]}>&-; wait; x=$(<auto); echo "$x"; printf -v y '%s' "$(<auto)"; echo ${#y}; echo {a,b}.{c,d} > brace; cat brace; touch f{1..20}.txt; echo f?.txt; shopt -s extglob nullglob globstar dotglob
echo !(f*) ; echo nothing*; mkdir -p x/y/z; touch x/y/z/deep x/.hid; echo **/; echo **/deep; echo x/*; shopt -u dotglob; echo x/*; set -- *.txt; echo $#
[[ -f auto && ! -e nope && auto -ef ./auto ]] && echo cond; [[ f1.txt -nt nope ]] && echo nt; [[ -s count && -r count && -w count && ! -x count ]] && echo modes; pushd x/y > /dev/null; dirs +0; pwd; popd > /dev/null; pwd; cd x; cd y/..; cd ..; pwd; (cd x/y && rmdir z 2>&1; rm -r z; pwd); source <(echo 'echo sourced'); bash -c 'echo $0 $1' name arg; bash -s arg <<< 'echo stdin $1'; bash < <(echo 'echo piped script')
trap 'echo trapped $?' ERR; false; trap - ERR; set -o pipefail; false | true; echo $?; time -p true 2>&1; (exec -a other bash -c 'echo $0'); { sleep 0.05; echo late > late; } & disown; wait; while [ ! -s late ]; do :; done; cat late; ulimit -n 64; for i in {1..40}; do exec {many}> many.$i; echo $i >&$many; done; cat many.* | wc -l; exec {more}>> many.1; 
export TMPDIR=$PWD/tmp; mkdir tmp; cat <<END | wc -c
$big$big
END
cat <<< "$big$big" | cksum; cat 3<<< "$big$big" <&3 | cksum; while read -r l; do echo ${#l}; done <<END
$big
$big$big
END
(read -r l; echo ${#l}; cat | wc -c) <<< "$big"$'\n'"$big"; bash -c 'cat; ls -A tmp' <<< "$big$big" | wc -c; exec 5<<< "$big$big"; ls -A tmp; read -N 5 l <&5; echo $l; (read -N 7 l <&5; echo $l); wc -c <&5; cat /dev/fd/5 | wc -c; exec 5<&-; rmdir tmp; unset TMPDIR
set -o noclobber; > f1.txt; echo kept > new1; echo over > new1; echo over >| new1; cat new1; set +o noclobber; compgen -f f1 | sort; type -P ./job; hash -r; select x in one; do echo $x; break; done <<< 1; printf '%(%Y)T\n' 0; enable -n echo; echo external > ext; enable echo; cat ext; history -s x; HISTFILE=hist history -w; wc -l < hist; read -t 0 < auto; echo $?; read -N 3 n < auto; echo $n; read -d '' -r all < both; echo "$all"; exec 9>lock; flock 9; echo locked; flock -u 9; exec 9>&-
IFS=:; while read -r user _; do [ $user = root ] && echo $user; done < /etc/passwd > users; cat users; unset IFS; f() { local IFS=,; echo "$*"; } > func; f a b; cat func; exec ./job2 "$@" <<< "across exec" 7> seven
JOB
printf '#!/bin/bash\ncat; echo "job2 $*"; echo seven >&7; exec 7>&-; cat seven; exit 5\n' > job2; chmod +x job job2; ./job args; echo $?; bash ./job; bash -e -c 'cat nothing; echo not reached'; bash -u -c 'echo $nothing > u' 2>&1 | sed 's/.*: //'; { bash -c 'echo a > a; cat a; kill -9 $$'; } 2> /dev/null; echo $?; bash --norc -i -c 'echo interactive > i; cat i' 2>/dev/null; BASH_ENV=job2 bash -c 'echo env' 7>/dev/null < /dev/null
rm -f sub count late
