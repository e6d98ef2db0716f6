# Mounts, with the working directory at the place $1: a source that is a name, a target elsewhere, and what is no mount.
cd $1; echo a > f; mkdir -p d/e; mkdir $1/none
unshare -m sh -c 'echo b >> f' || echo "[$?] unshare -m"
unshare -m --propagation unchanged sh -c 'mount -t tmpfs none /mnt && echo c >> f && : > /mnt/x && ls /mnt && umount /mnt && ls /mnt' || echo "[$?] mount"
unshare -pf --mount-proc sh -c 'echo d >> f; echo $$' || echo "[$?] unshare --mount-proc"
unshare -m --propagation unchanged sh -c 'cd d/e; mount -t tmpfs tmpfs ../../../../../../../../../../../../../../../mnt && : > /mnt/y && ls /mnt' || echo "[$?] leading out"
python3 - <<'P'
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
# The disk may be the root's.
told = lambda answer: 'ok' if answer == 0 else errno.errorcode[ctypes.get_errno()].replace('EBUSY', 'EINVAL')
for who in (0,):
    if os.fork() == 0:
        if who: os.setresuid(-1, who, -1)
        print(who, *(told(answer()) for answer in (
            lambda: libc.umount2(b'd', 0), lambda: libc.umount2(b'missing', 0), lambda: libc.umount2(b'f', 0), lambda: libc.umount2(b'd', 0x100), lambda: libc.syscall(429, -100, b'd', -100, b'/mnt', 0),
            lambda: libc.mount(b'none', b'd', b'nosuchfs', 0, None) and libc.mount(b'none', b'missing', b'tmpfs', 0, None),
            lambda: libc.mount(b'missing', b'/mnt', b'none', 4096, None),
            lambda: libc.syscall(155, b'd', b'd/e'), lambda: libc.syscall(155, b'.', b'.'), lambda: libc.syscall(155, b'missing', b'd'))), flush=True)
        os._exit(0)
    os.wait()
P
cat f; ls
