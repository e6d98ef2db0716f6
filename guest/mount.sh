# Sourced by a guest's job: what is writable, /dev/shm on persistent memory, and the job's output to the host. $dax: "always"; or
# "never", and the NVDIMM is a disk as any other, with the kernel's pages before it; or "none": it is a device of bytes, and
# /dev/shm lies on a disk. $medium: where it is "below", a disk is mounted besides, at /run/disk.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/run TMPDIR=/run
exec </dev/null >/dev/ttyS1 2>&1
stty -F /dev/ttyS1 -opost
mount -t tmpfs -o mode=1777 run /run
ip link set lo up
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts

give_up() {
    echo "guest failed: $*"
    poweroff_now
}

poweroff_now() {
    sync
    echo o >/proc/sysrq-trigger
    # The host's files are gone before the machine is.
    { sleep 60; } 2>/dev/null
}

if [ $dax = none ]; then
    if ! ndctl list -N | grep -q '"mode":"devdax"'; then
        ndctl create-namespace -f -e namespace0.0 --mode=devdax >/run/ndctl.log 2>&1 || give_up "$(cat /run/ndctl.log)"
        mkfs.ext4 -q /dev/vda || give_up "no file system can be made on the disk"
    fi
    mount /dev/vda /dev/shm || give_up "the disk cannot be mounted"
    return 0
fi
if ! ls /dev/pmem0 >/dev/null 2>&1 || ! ndctl list -N | grep -q '"mode":"fsdax"'; then
    ndctl create-namespace -f -e namespace0.0 --mode=fsdax --map=mem >/run/ndctl.log 2>&1 || give_up "$(cat /run/ndctl.log)"
    mkfs.ext4 -q -b 4096 /dev/pmem0 || give_up "no file system can be made on the NVDIMM"
fi
mount -o dax=$dax /dev/pmem0 /dev/shm || give_up "the NVDIMM cannot be mounted"
grep -q " /dev/shm ext4 .*dax=$dax" /proc/mounts || give_up "dax=$dax is refused: $(grep /dev/shm /proc/mounts)"
chmod 1777 /dev/shm
mkdir -p /dev/shm/tmp
chmod 1777 /dev/shm/tmp
if [ "$medium" = below ]; then
    mkdir /run/disk
    mount /dev/vda /run/disk 2>/dev/null || { mkfs.ext4 -q /dev/vda && mount /dev/vda /run/disk; } ||
        give_up "the disk below cannot be mounted"
fi
