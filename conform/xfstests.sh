#!/bin/bash
# xfstests.sh XFSTESTS FOLDER TESTS...: runs tests of a built xfstests against two mounted stores in memory that it makes in FOLDER.
#
# `cuesta` is in /usr/local/bin or /usr/bin, where mount(8) has its helpers find it. Needs root, fuse3, and the users that
# xfstests asks for (fsgqa, fsgqa2, 123456-fsgqa). Two lines of xfstests are about names: it must take `fuse.cuesta` for `fuse`, and
# unmount by the place, as a store's folder is a path that can be a place itself.
set -eu
suite=$(realpath "$1") folder=$(realpath "$2")
shift 2
for part in test scratch; do
  mkdir -p "$folder/$part"
  [ -d "$folder/$part.store" ] || cuesta mkfs "$folder/$part.store" --medium memory --nvm 1G
done
grep -q fuse.cuesta "$suite/common/rc" || sed -i \
  -e "s#-e 's/fuse.ceph-fuse/ceph-fuse/'#& -e 's/fuse.cuesta/fuse/'#" \
  -e '/^_scratch_unmount()/,/^}/s/tmpfs)/tmpfs|fuse)/' \
  -e 's/_unmount \$TEST_DEV/_unmount $TEST_DIR/' "$suite/common/rc"
cat > "$folder/config" <<EOF
export FSTYP=fuse FUSE_SUBTYP=.cuesta
export TEST_DEV=$folder/test.store TEST_DIR=$folder/test
export SCRATCH_DEV=$folder/scratch.store SCRATCH_MNT=$folder/scratch
export MOUNT_OPTIONS="-o allow_other" TEST_FS_MOUNT_OPTS="-o allow_other"
EOF
cd "$suite"
HOST_OPTIONS=$folder/config RESULT_BASE=$folder/results ./check "$@"
