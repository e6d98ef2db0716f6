# What programs do with files they name by a descriptor, in directory $1. Prints nothing that varies.
D=$1/named; mkdir -p $D/t/sub/inner $D/x; umask 022
echo content > $D/t/sub/f; chmod 640 $D/t/sub/f; chmod 555 $D/t/sub/inner; chmod 750 $D/t/sub; chmod 2775 $D/t
tar cf $D/t.tar -C $D t; (umask 077; tar xpf $D/t.tar -C $D/x); (cd $D/x; find . -printf '%p %m\n' | sort)
tar df $D/t.tar -C $D/x && echo clean
exec 3< $D/t/sub/f; cat /dev/fd/3; cat /dev/fd/3 /proc/self/fd/3; read line < /proc/$$/fd/3; echo $line
[ -e /dev/fd/3 ] && echo there; [ -f /proc/self/fd/3 ] && echo file; [ -x /dev/fd/3 ] || echo not executable
[ -L /dev/fd/3 ] && echo link; [ -p /dev/fd/3 ] || echo no pipe; [ /dev/fd/3 -ef $D/t/sub/f ] && echo same
readlink /proc/self/fd/3; realpath /dev/fd/3; stat -L -c '%s %a %F' /dev/fd/3; wc -c /dev/fd/3; exec 3<&-
exec 4> $D/out; echo one >&4; echo two > /dev/fd/4; cat $D/out; echo three >> /dev/fd/4; cat $D/out; exec 4>&-
sh -c 'echo new > /dev/stdout; echo error > /dev/stderr' > $D/o 2> $D/e; cat $D/o $D/e
cat /dev/stdin < $D/o; cp /dev/stdin $D/copy < $D/t/sub/f; cat $D/copy
ln -s /dev/stdin $D/in; cat $D/in < $D/o; ln -s /proc/self/fd/5 $D/five; cat $D/five 5< $D/t/sub/f
(cd $D && tar xpf t.tar && exec 6< t && cat /dev/fd/6/sub/f /proc/self/fd/6/sub/../sub/f && cd /dev/fd/6/sub && ls && cd /dev/fd/6 && ls)
