#!/bin/bash
# xfstests.sh XFSTESTS FOLDER TESTS...: runs tests of a built xfstests against two mounted stores in memory that it makes in FOLDER.
#
# `cuesta` is in /usr/local/bin or /usr/bin, where mount(8) has its helpers find it. Needs root, fuse3, and the users that
# xfstests asks for (fsgqa, fsgqa2, 123456-fsgqa). Some lines of xfstests are changed: it must take `fuse.cuesta` for `fuse`, unmount by
# the place, as a store's folder is a path that can be a place itself, and make the scratch store anew, in the size a test asks for.
set -eu
suite=$(realpath "$1") folder=$(realpath "$2")
shift 2
for part in test scratch; do
  mkdir -p "$folder/$part"
  [ -d "$folder/$part.store" ] || cuesta mkfs "$folder/$part.store" --medium memory --nvm 2G
done
if ! grep -q fuse.cuesta "$suite/common/rc"; then
  sed -i \
    -e "s#-e 's/fuse.ceph-fuse/ceph-fuse/'#& -e 's/fuse.cuesta/fuse/'#" \
    -e '/^_scratch_unmount()/,/^}/s/tmpfs)/tmpfs|fuse)/' \
    -e '/^_scratch_mkfs()/,/^}/s/|fuse|virtiofs)/|virtiofs)/' \
    -e '/^_scratch_mkfs()/,/^}/s/^\ttmpfs)/\tfuse)\n\t\tmake_scratch_store 2G\n\t\treturn $?\n\t\t;;\n&/' \
    -e '/^_try_scratch_mkfs_sized()/,/^}/s/^\ttmpfs)/\tfuse)\n\t\tmake_scratch_store $fssize\n\t\t;;\n&/' \
    -e '/^_require_names_are_bytes()/,/^}/s/|btrfs)/|btrfs|fuse)/' \
    -e 's/_unmount \$TEST_DEV/_unmount $TEST_DIR/' "$suite/common/rc"
  cat >> "$suite/common/rc" <<'EOF'

make_scratch_store()
{
	_unmount $SCRATCH_MNT 2>/dev/null
	{ cuesta destroy --yes --force $SCRATCH_DEV && cuesta mkfs $SCRATCH_DEV --medium memory --nvm $1; } > /dev/null 2>&1
}
EOF
fi
cat > "$folder/config" <<EOF
export FSTYP=fuse FUSE_SUBTYP=.cuesta
export TEST_DEV=$folder/test.store TEST_DIR=$folder/test
export SCRATCH_DEV=$folder/scratch.store SCRATCH_MNT=$folder/scratch
export MOUNT_OPTIONS="-o allow_other" TEST_FS_MOUNT_OPTS="-o allow_other"
EOF
cd "$suite"
HOST_OPTIONS=$folder/config RESULT_BASE=$folder/results ./check "$@"
