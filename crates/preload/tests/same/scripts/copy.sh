# cp in every manner: what it carries over, what it links, what it refuses.
mkdir -p from/deep/er from/empty
echo one > from/one; seq 1 20000 > from/deep/many; printf 'x%.0s' {1..5000} > from/deep/er/x
ln from/one from/deep/hard; ln -s ../one from/deep/soft; ln -s nowhere from/dangling; ln -s . from/loop
mkfifo from/fifo; truncate -s 300000 from/hole; printf end | dd of=from/hole bs=1 seek=200000 conv=notrunc status=none
chmod 4751 from/deep/many; chmod 1777 from/empty; chmod 600 from/one
touch -d '2001-02-03 04:05:06.789012345' from/one from/deep/many from/empty; touch -hd '1999-01-01' from/deep/soft
touch -d '2010-10-10 10:10:10' from/deep/er from/deep from
cp -a from archived
cp -r from recursive 2>&1 | sort
cp -rL from/deep followed
cp -rP from/deep physical
cp -rH from/deep hopping
cp -rl from linked
cp -rs "$D/from/deep" symbolic
cp -p from/deep/many kept; cp --no-preserve=mode from/deep/many plain; cp --attributes-only from/deep/many hollow
cp -dR --preserve=mode,timestamps from/deep partial
mkdir parents; cp --parents from/deep/er/x parents
cp --sparse=always from/hole sparse; cp --sparse=never from/hole dense; cp --reflink=auto from/hole auto
cmp from/hole sparse && cmp from/hole dense && cmp from/hole auto
cp --reflink=always from/one reflink 2>/dev/null || rm -f reflink
echo newer > target; cp -n from/one target; cat target; cp -b from/one target; cat target target~
cp --backup=numbered from/one target; cp --backup=numbered from/one target; ls target*
cp -u from/one target; cp -f from/one target; cp -v from/one from/deep/many parents
cp -T from/one parents; cp from missing; cp missing here; cp from/one from/one; cp -r from from/deep; cp from/one nodir/
rm -rf from/deep/from
cp from/dangling copied-dangling; cp -P from/dangling copied-dangling; cp from/one copied-dangling
cp --remove-destination from/one copied-dangling
cp /etc/hostname . && cmp /etc/hostname hostname; rm hostname
cp -a /usr/share/common-licenses licenses; diff -r /usr/share/common-licenses licenses && echo licenses same
cp -a from "$OUTSIDE/from"; cp -a "$OUTSIDE/from" back; diff -r from/deep "$OUTSIDE/from/deep"
cp /dev/null null; cp /proc/self/comm comm; cat comm
(cd from/deep && cp ../one er/ && cp -r . ../../dot && cp -r er/.. ../../dots)
