# rm and its kin: recursion, refusal, deep and wide trees, names that are hard to type.
mkdir -p a/b/c/d/e; touch a/1 a/b/2 a/b/c/3; ln -s /etc a/etc; ln -s ../.. a/b/up
rm a; rm -d a; rmdir a; rmdir a/b/c/d/e/; rmdir -p x; mkdir -p p/q/r; rmdir -p p/q/r; ls
rm -rv a | sort; ls; test -e /etc/passwd && echo etc is there
d=deep; for i in $(seq 120); do d=$d/a-name-of-some-length-$i; done; mkdir -p $d 2>&1 | cut -c1-60
(cd deep && for i in $(seq 200); do mkdir -p another-long-directory-name-$i && cd another-long-directory-name-$i || break; done; pwd | wc -c; touch bottom; ls)
find deep | wc -l; rm -r deep; ls
mkdir wide; (cd wide; for i in $(seq 3000); do : > f$i; done); ls wide | wc -l; rm wide/f1*; ls wide | wc -l; rm -rf wide; ls -A
touch -- -r '-' ' ' '*' '?' $'\t' $'a\nb' $'\xff\xfe' 'é' '\' '"' "'" ; ls -b | cat; rm -- -r; rm ./- ' ' '*' ; ls -b; rm -- ./*; ls -A
long=$(printf 'n%.0s' {1..255}); touch $long; ls | wc -c; touch n$long 2>&1 | tail -c 20; rm $long
touch protected; chmod 0 protected; rm -f protected; touch i; echo n | rm -i i; echo; echo y | rm -i i; echo; ls
seq 9 > open; exec 5< open 6>> open 7<> open; rm open; ls; cat <&5; echo more >&6; (echo yet more >&6); cat <&5; cat /proc/self/fd/5 | wc -l; cat /dev/fd/7 | head -1; head -c 4 <&7; truncate -s 4 /dev/fd/6; wc -c < /dev/fd/5; stat -L -c '%h %s' /proc/self/fd/5; readlink /proc/self/fd/5 | sed "s#$D##"; sh -c 'cat <&7; echo from a program >&7; cat /dev/fd/7'; cp /dev/fd/5 kept; cat kept; exec 5<&- 6>&- 7>&-; rm kept
echo one > over; exec 5< over; echo two > new; mv new over; cat <&5 over; exec 5<&-; mkdir gone; cd gone; rmdir ../gone; ls -A; touch x; mkdir y; ls ..; cd ..; rm over
rm missing; rm -f missing; rm -r missing; rm ''; rm .; rm -r .; rm -r ..; rm /; unlink missing; mkdir u; unlink u; rmdir u; touch u; rmdir u; rmdir u/; unlink u
touch keep; ln keep keep2; rm keep; stat -c %h keep2; rm keep2
mkdir -m 700 m; mkdir m; mkdir -p m; mkdir m/x/y; mkdir -p m/x/y; mkdir -v m/z; mkdir ''; mkdir $long/x 2>&1 | tail -c 30; touch f; mkdir f/x; mkdir f; mkdir -p f/x
shopt -s dotglob; touch .hidden; mkdir .dir; touch .dir/f; rm -rf *; ls -A
