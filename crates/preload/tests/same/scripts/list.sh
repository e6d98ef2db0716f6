# ls, stat, du, tree-like listings: every column that does not vary by file system.
mkdir -p d/sub/deep; seq 1000 > d/numbers; : > d/empty; ln d/numbers d/again; ln -s numbers d/link; ln -s none d/broken; mkfifo d/pipe
ln -s sub d/to; chmod 2755 d/sub; chmod 1755 d/sub/deep; chmod 0 d/empty; cp /bin/true d/program; chmod u+s d/program
touch -d '2020-02-29 12:34:56.123456789' d/* ; touch -hd '1970-01-01' d/link d/broken d/to; touch -d '2001-01-01' d/sub/deep; touch -d '2100-01-01' d/numbers; touch -d '1969-12-31 23:59:59' d/program
TIME=--time-style=full-iso
plain() { grep -v ^total | sed -E 's/^(d[^ ]* +[0-9]+ +[^ ]+ +[^ ]+ +)[0-9]+/\1-/; s/ +/ /g'; }
ls -lR $TIME d | plain; ls -l $TIME d/sub | plain; ls -ld $TIME d/link d/link/; ls -lL $TIME d/link; ls -lt $TIME d | plain
ls -F d; ls -p d; ls -A d; ls -a d; (cd d; ls -dSr numbers empty program); ls -U d | sort; ls -1Q d; ls -m d; ls -x -w 60 d; ls -R d; ls --color=always d
ls -i d/numbers d/again | awk '{print $1}' | sort -u | wc -l; ls -ln d | plain | awk '{print $1,$2,$3,$4,$5,$NF}'
ls d/broken; ls -L d/broken; ls missing; ls d/empty/x; ls d/to/; ls d/to; ls -H d/to; ls -d d/*/; echo d/*; echo d/*/*; echo d/.*
stat -c '%n %A %a %F %h %s %u %g %U %G %N %y' d/*[^b]; stat -Lc '%n %F %h' d/link d/to; stat missing; stat -c '%m' d >/dev/null; stat -t d > /dev/null
stat -f -c '%t' d > /dev/null; stat -f -c %l d; stat - < d/numbers | grep -o 'Size: [0-9]*'
a=$(stat -c %i d/numbers); b=$(stat -c %i d/again); [ $a = $b ] && echo one inode; [ $(stat -c %d d) = $(stat -c %d d/sub) ] && echo one device
[ "$(stat -c %i d/sub/..)" = "$(stat -c %i d)" ] && echo dotdot; [ "$(ls -id d/sub/. | cut -d' ' -f1)" = "$(ls -id d/sub | cut -d' ' -f1)" ] && echo dot
[ "$(ls -ai d/sub | awk '$2==".."{print $1}')" = "$(stat -c %i d)" ] && echo listed dotdot
du --apparent-size -ab d/numbers d/link; du -a --apparent-size -B1 d | awk '$2 !~ /d$|sub$|deep$|again$|numbers$/' | sort; du -s d > /dev/null; du -sl d > /dev/null; du missing
df . > /dev/null; df -i . > /dev/null; df -T . | wc -l; df d/numbers | wc -l; df --output=target d/numbers | tail -1 > /dev/null
find d -printf '%p %y %Y %m %n %s %u %g %l %d %f %h %P %t\n' | sed 's/^\(d[^ ]* d d [0-9]* [0-9]*\) [0-9]*/\1/' | grep -v ^d\ d | sort
readlink -f d/to/deep; readlink -e d/broken; readlink -m d/x/../y; realpath d/to; realpath -s d/to; realpath --relative-to=d/sub d/numbers
dir d; vdir $TIME d | wc -l; pwd; (cd d/to; pwd; pwd -P; ls ..); basename $PWD > /dev/null
file d/numbers d/program d/link d/sub 2>/dev/null | cut -c1-60; wc d/numbers; head -2 d/numbers; tail -2 d/numbers; cksum d/numbers; md5sum d/again; sha256sum d/numbers
test -e d/broken || echo broken; test -L d/broken && echo link; test -p d/pipe && echo fifo; test -g d/sub && test -k d/sub/deep && test -u d/program && echo bits
test d/numbers -nt d/program && echo newer; test d/program -ot d/numbers && echo older; test d/numbers -ef d/again && echo same; test -O d && test -G d && echo mine
test -s d/empty || echo no size; test -r d/empty; test -x d/numbers || echo not executable; touch d/fresh; sleep 0.02; echo x >> d/fresh; test -N d/fresh && echo unread
