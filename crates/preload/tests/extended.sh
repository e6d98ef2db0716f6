# What programs do with extended attributes in directory $1. Prints nothing that varies.
cd "$1" || exit 1
mkdir tree tree/sub
echo content > tree/f
echo other > tree/sub/g
ln -s f tree/link
ln tree/f tree/hard
setfattr -n user.colour -v blue tree/f
setfattr -n user.empty tree/f
setfattr -n user.bytes -v 0x00ff10 tree/sub/g
setfattr -n user.on -v directory tree/sub
setfattr -n trusted.note -v root tree/f
setfattr -h -n trusted.link -v itself tree/link
setfattr -n user.no -v way -h tree/link
setfattr -n odd -v x tree/f
setfattr -x user.nothing tree/f
setfattr -n user.colour -v blue nothing
setfattr -n user.gone -v x tree/f; setfattr -x user.gone tree/f

dump() { (cd "$1" && find . | LC_ALL=C sort | xargs getfattr -h -d -m -); }
dump tree
getfattr --only-values -n user.colour tree/link; echo
getfattr -n user.nothing tree/f

cp -a tree copied; dump copied
cp tree/f plain; getfattr -d -m - plain
cp --preserve=xattr tree/f kept; getfattr -d -m - kept
mv tree/sub/g tree/moved; getfattr -d tree/moved
install -m 600 tree/f installed; stat -c '%a %s' installed; getfattr -d -m - installed
ls -l tree | sed -n 's/^\(...........\).*[0-9] \([a-z]\)/\1 \2/p'
ls -ld tree/f | cut -c 1-11

tar --xattrs --xattrs-include='*' -cf t.tar tree
mkdir untarred; tar --xattrs --xattrs-include='*' -xf t.tar -C untarred; dump untarred/tree
tar --acls --xattrs -cf a.tar tree; echo tar $?
mkdir again; tar --acls --xattrs -xf a.tar -C again; echo untar $?; dump again/tree
rsync -aHX tree/ synced/; echo rsync $?; dump synced
setfattr -n user.colour -v red tree/f
rsync -aHX --itemize-changes tree/ synced/ | LC_ALL=C sort; dump synced
rsync -aHAX tree/ all/; echo rsync $?; dump all

mkdir out; rsync -aX tree/ "$2/"; dump "$2"
cp -a "$2" back; dump back
python3 -c 'import shutil, os; shutil.copy2("tree/f", "shutil"); print(sorted(os.listxattr("shutil")))'
stat -c '%h %s' tree/f
rm -r tree copied untarred again synced all back; ls
