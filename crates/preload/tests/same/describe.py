"""Says what lies below sys.argv[1], an entry a line: kind, mode, owner, links, size, times that were set, the name
that it shares its inode with, and what is in it. Times from sys.argv[2] on are the run's own, and vary."""
import hashlib, os, stat, sys

top, started = sys.argv[1], int(sys.argv[2]) * 10**9
KINDS = {stat.S_IFREG: 'file', stat.S_IFDIR: 'directory', stat.S_IFLNK: 'symlink', stat.S_IFIFO: 'fifo',
         stat.S_IFSOCK: 'socket', stat.S_IFCHR: 'character', stat.S_IFBLK: 'block'}
first_names = {}


def attributes(path):
    try:
        names = sorted(os.listxattr(path, follow_symlinks=False))
        return [(name, os.getxattr(path, name, follow_symlinks=False)) for name in names]
    except OSError:
        return []


def describe(path):
    name, status = os.path.relpath(path, top), os.lstat(path)
    kind = KINDS[stat.S_IFMT(status.st_mode)]
    words = [name.encode('utf-8', 'backslashreplace').decode(), kind, f'{stat.S_IMODE(status.st_mode):o}',
             f'{status.st_uid}:{status.st_gid}', f'links={status.st_nlink}']
    if kind != 'directory':
        words.append(f'size={status.st_size}')
        first = first_names.setdefault(status.st_ino, name)
        if first != name:
            words.append(f'is={first}')
    if kind in ('character', 'block'):
        words.append(f'device={os.major(status.st_rdev)}:{os.minor(status.st_rdev)}')
    words.append('mtime=now' if started <= status.st_mtime_ns < started + 86400 * 10**9
                 else f'mtime={status.st_mtime_ns}')
    if kind == 'symlink':
        words.append(f'-> {os.readlink(path)}')
    if kind == 'file':
        with open(path, 'rb') as file:
            words.append(hashlib.sha256(file.read()).hexdigest()[:20])
    words += [f'{name}={value}' for name, value in attributes(path)]
    print(*words)
    if kind == 'directory':
        for entry in sorted(os.listdir(path)):
            describe(os.path.join(path, entry))


describe(top)
