# mv within a directory, between directories, over what is there, and out of the store and back.
mkdir -p a/b/c d; echo 1 > a/one; echo 2 > a/b/two; ln -s two a/b/link; ln a/one a/same; touch -d 2001-01-01 a/b/two a/b
mv a/one d; mv -v a/same d/other; mv a/b/two a/b/renamed; ls -R
mv d/one d/other; ls d
echo 3 > three; echo 4 > four; mv -n three four; cat three four; mv -b three four; cat four four~
echo 5 > five; mv -f five four; cat four; mv --backup=t four four~
mv a/b a/b/c; mv a nowhere/x; mv missing here; mkdir -p full/x e/full; mv full e; mv e/full/x e; mv -T e/x e/full
mkdir src; touch src/f; mkdir dst; mv -T src dst; ls dst; mv dst/f dst; mv four dst/; mv dst/four .; mv four d a
mv -t a d dst; find a | sort
mv a "$OUTSIDE/a"; find "$OUTSIDE/a" | sort | sed "s#$OUTSIDE#O#"; mv "$OUTSIDE/a" back
mv -u back/b/renamed back/b/c/; mv back/b/link back/b/c/
mkdir sticky; chmod 1777 sticky; touch sticky/f; mv sticky/f sticky/g; mv sticky moved
ln -s back symdir; mv symdir/b/c .; mv symdir link2; readlink link2; mv link2/ link3; ls -d link*
touch 'with space' $'new\nline' -- -dash 'ünï'; mv 'with space' w; mv $'new\nline' n; mv -- -dash dash; mv ünï ü
echo x > x; echo y > y; mv --exchange x y 2>/dev/null; mv -i x y < /dev/null; mv x ./y; cat y
mkdir p; (cd p; mv ../y .; mv y ../z; mkdir q; cd q; mv ../../z ../..//zz; pwd -P)
for i in $(seq 300); do echo $i > many$i; done; mkdir lots; mv many* lots; ls lots | wc -l; mv lots fewer; ls fewer | sort -n | tail -1
