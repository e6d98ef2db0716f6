# Access control lists: set, shown, copied and handed down; what modes and they do to each other; and who may do what.
list() { getfacl -np -- "$@"; stat -c '%a %n' -- "$@"; }; tree() { find "$@" ! -type l -print0 | sort -z | xargs -0 getfacl -np --; }
touch f; setfacl -m u:1000:rw,g:1001:rx,o::- f; list f; ls -l f | cut -c1-11; chmod 600 f; list f; chmod g+r f; list f; setfacl -m m::rwx f; list f; setfacl -x u:1000 f; list f; chmod 4751 f; list f; setfacl -b f; list f; ls -l f | cut -c1-11
setfacl -m u::rwx,g::r,o::x f; list f; setfacl -m m::r f; list f; setfacl -x m f; list f; setfacl --set u::r,g::rw,o::-,u:7:x,m::w f; list f; setfacl -n -m u:8:rwx f; list f
mkdir d; setfacl -d -m u:1000:rwx,g::rx,o::- d; list d; (umask 077; touch d/f; mkdir d/s d/s/t; mkfifo -m 666 d/p; mknod d/n p; ln -s f d/l; cp f d/c; echo > d/s/t/e; install -m 755 f d/i; mkdir -m 700 d/m; ln d/f d/h); list d/f d/s d/s/t d/p d/n d/c d/s/t/e d/i d/m; stat -c %a d/l
python3 - <<'P'
import os, tempfile
os.umask(0o27)
unnamed = os.open('d', os.O_TMPFILE | os.O_RDWR, 0o666); print(oct(os.fstat(unnamed).st_mode), sorted(os.listxattr(unnamed)))
os.link(f'/proc/self/fd/{unnamed}', 'd/was', follow_symlinks=True); os.close(unnamed)
os.close(tempfile.mkstemp(dir='d', prefix='made')[0])
P
list d/was; stat -c %a d/made*; rm d/made*
setfacl -k d; list d; (umask 027; touch d/k; mkdir d/ks); list d/k d/ks; setfacl -d -m u::rwx,g::r,o::- d/ks; (umask 0; touch d/ks/plain; mkdir d/ks/dir); list d/ks/plain d/ks/dir; setfacl -dm u:9:r f; setfacl -k f; setfacl -bk d/p
chmod g+s d/ks; chown :50 d/ks; mkdir d/ks/g; touch d/ks/g/f; list d/ks/g d/ks/g/f; setfacl -Rm u:3:rX d; tree d; tree d > saved; setfacl -Rb d; tree d | sha256sum; setfacl --restore=saved; tree d | cmp - saved; rm saved
cp -a d a; tree a; cp -r d r; tree r | md5sum; cp --preserve=mode f cm; list cm; cp f cn; list cn; (umask 077; cp f co); list co; mv f mf; list mf; tar --acls --sort=name -cf t.tar d; mkdir u; tar --acls -xpf t.tar -C u; tree u; tar -tvf t.tar | awk '{print $1, $2, $NF}' | sort; rm t.tar; mkdir v; rsync -aA --no-specials d/ v; tree v; rsync -aAn --no-specials --itemize-changes d/ v | sort; find . -perm /g+w | sort
ln -s mf l; setfacl -m u:4:r l; list mf; getfacl -np l; setfacl -Pm u:5:r l; list mf; setfacl -m u:5:r missing; getfacl missing; chown 1:2 mf; list mf; chmod 2755 mf; setfacl -m u:6:r mf; list mf; echo >> mf; list mf; > d/k; list d/k
python3 - <<'P'
import os, struct, errno
ACCESS, DEFAULT = 'system.posix_acl_access', 'system.posix_acl_default'
OWNER, USER, GROUP, NAMED, MASK, OTHER = 1, 2, 4, 8, 16, 32

def acl(*entries, version=2):
    return struct.pack('<I', version) + b''.join(struct.pack('<HHI', tag, may, who & 0xffffffff) for tag, may, who in entries)

def tried(what, call, *arguments, **named):
    try: answer = call(*arguments, **named)
    except OSError as error: answer = errno.errorcode[error.errno]
    print(what, answer.hex() if isinstance(answer, bytes) else answer)

full = acl((OWNER, 6, 3), (USER, 7, 1000), (GROUP, 4, 5), (MASK, 5, -1), (OTHER, 0, 7))
plain = acl((OWNER, 6, -1), (GROUP, 4, -1), (OTHER, 2, -1))
os.mkdir('e'); os.chdir('e'); open('f', 'w').close(); os.mkdir('d'); os.symlink('f', 'l'); os.mkfifo('p')
for name in ACCESS, DEFAULT:
    for follow in True, False:
        at = {'follow_symlinks': follow}
        for path in 'f', 'd', 'l', 'p':
            tried(f'get {name} {path}', os.getxattr, path, name, **at)
            tried(f'remove nothing {name} {path}', os.removexattr, path, name, **at)
            for value in full, plain, b'', acl():
                tried(f'set {name} {path} {len(value)}', os.setxattr, path, name, value, **at)
                tried(f'get', os.getxattr, path, name, **at); print(sorted(os.listxattr(path, **at)), oct(os.lstat(path).st_mode))
            tried('set', os.setxattr, path, name, full, **at); tried('remove', os.removexattr, path, name, **at); print(oct(os.lstat(path).st_mode))
wrong = {
    'version': acl((OWNER, 6, -1), version=1), 'short': b'\2\0', 'odd': full + b'.', 'unmasked': acl((OWNER, 6, -1), (USER, 7, 1), (GROUP, 4, -1), (OTHER, 0, -1)),
    'unknown': acl((OWNER, 6, -1), (64, 7, 1), (GROUP, 4, -1), (OTHER, 0, -1)), 'nobody': acl((OWNER, 6, -1), (USER, 7, -1), (GROUP, 4, -1), (MASK, 7, -1), (OTHER, 0, -1)),
    'bits': acl((OWNER, 8, -1), (GROUP, 4, -1), (OTHER, 0, -1)), 'ownerless': acl((GROUP, 4, -1), (OTHER, 0, -1)), 'no others': acl((OWNER, 6, -1), (GROUP, 4, -1)),
    'order': acl((OWNER, 6, -1), (GROUP, 4, -1), (USER, 7, 1), (MASK, 7, -1), (OTHER, 0, -1)), 'twice': acl((OWNER, 6, -1), (GROUP, 4, -1), (OTHER, 0, -1), (OTHER, 0, -1)),
    'same user': acl((OWNER, 6, -1), (USER, 7, 1), (USER, 1, 1), (GROUP, 4, -1), (MASK, 7, -1), (OTHER, 0, -1)), 'too many': acl((OWNER, 6, -1), *((USER, 7, who) for who in range(520)), (GROUP, 4, -1), (MASK, 5, -1), (OTHER, 0, -1)),
}
for what, value in wrong.items():
    tried(what, os.setxattr, 'f', ACCESS, value); tried(what, os.setxattr, 'd', DEFAULT, value); tried(what, os.setxattr, 'f', DEFAULT, value)
many = acl((OWNER, 6, -1), *((USER, 7, who) for who in range(240)), (GROUP, 4, -1), (MASK, 5, -1), (OTHER, 0, -1))
tried('many', os.setxattr, 'd', DEFAULT, many); os.mkdir('d/many'); tried('many', lambda: len(os.getxattr('d/many', ACCESS)) + len(os.getxattr('d/many', DEFAULT)))
tried('create', os.setxattr, 'f', ACCESS, full, os.XATTR_CREATE); tried('again', os.setxattr, 'f', ACCESS, full, os.XATTR_CREATE); tried('remove', os.removexattr, 'f', ACCESS); tried('replace', os.setxattr, 'f', ACCESS, full, os.XATTR_REPLACE)
for name in 'system.other', 'system.posix_acl_accessible', 'system.', 'posix_acl_access':
    tried(name, os.setxattr, 'f', name, full); tried(name, os.getxattr, 'f', name); tried(name, os.removexattr, 'f', name)
os.chmod('f', 0o6755); tried('keeps', os.setxattr, 'f', ACCESS, full); print(oct(os.stat('f').st_mode)); before = os.stat('f'); os.chmod('f', 0o604); tried('after chmod', os.getxattr, 'f', ACCESS)
held = os.open('f', os.O_RDWR); os.fchmod(held, 0o640); tried('by descriptor', os.getxattr, held, ACCESS); os.unlink('f'); tried('orphan', os.setxattr, held, ACCESS, acl((OWNER, 7, -1), (USER, 2, 9), (GROUP, 4, -1), (MASK, 3, -1), (OTHER, 1, -1))); print(oct(os.fstat(held).st_mode)); tried('orphan', os.getxattr, held, ACCESS); os.close(held)
P
if [ $(id -u) = 0 ]; then python3 - <<'P'
# As users 1000 (of group 1000), 1001 (of 1001 and 2000) and 1002 (of 1002, 2000 and 2001), from the working directory on.
import os, itertools
os.mkdir('w', 0o755); os.chdir('w'); os.umask(0)

def attempt(call):
    try: answer = call()
    except OSError as error: return error.strerror
    if isinstance(answer, int) and answer > 2: os.close(answer)
    return 'yes'

def users(*calls):
    for uid, groups in (1000, []), (1001, [2000]), (1002, [2000, 2001]):
        child = os.fork()
        if child == 0:
            os.setgroups(groups); os.setgid(uid); os.setuid(uid)
            for what, call in calls: print(uid, what, attempt(call), flush=True)
            os._exit(0)
        os.waitpid(child, 0)

def opened(path):
    return [(f'{path} {name}', lambda flags=flags: os.open(path, flags)) for name, flags in
            (('r', os.O_RDONLY), ('w', os.O_WRONLY), ('rw', os.O_RDWR))] + [(f'{path} access {rights}', lambda rights=rights: None if os.access(path, rights, effective_ids=True) else 1 / 1 and os.open('nowhere', 0)) for rights in range(1, 8)]

def made(path, spec, mode=None, directory=False):
    (os.mkdir if directory else lambda path: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666)))(path)
    os.system(f'setfacl --set {spec} {path}')
    if mode is not None: os.chmod(path, mode)

made('named', 'u::rw,g::-,o::-,u:1000:rw,u:1001:r,m::rw'); made('masked', 'u::rw,g::rw,o::-,u:1000:rw,m::r'); made('groups', 'u::rw,g::-,o::rwx,g:2000:r,g:2001:w,m::rwx')
made('closed', 'u::rw,g::-,o::r,u:1000:rw,m::-'); made('others', 'u::rw,g::rw,o::r,u:1000:-,g:2001:-,m::rwx'); made('program', 'u::rwx,g::-,o::-,u:1000:x,g:2000:rx,m::rwx')
made('owned', 'u::-,g::rwx,o::rwx,u:1000:rwx,m::rwx'); os.chown('owned', 1000, 2000)
users(*itertools.chain(*(opened(path) for path in ('named', 'masked', 'groups', 'closed', 'others', 'program', 'owned'))))
users(*(('list ' + path, lambda path=path: os.getxattr(path, 'system.posix_acl_access') and None) for path in ('named', 'owned')), ('set', lambda: os.system('setfacl -m u:1001:rwx owned named 2>&1 | sort')), ('chmod', lambda: os.chmod('owned', 0o770)), ('user attribute', lambda: os.setxattr('named', 'user.mine', b'1')), ('times', lambda: os.utime('masked')), ('truncate', lambda: os.truncate('named', 0)))
made('search', 'u::rwx,g::-,o::-,u:1000:x,u:1001:rwx,g:2001:rx,m::rwx', directory=True); made('search/inner', 'u::rw,g::r,o::r')
users(('list', lambda: os.listdir('search') and None), ('look', lambda: os.stat('search/inner') and None), ('open', lambda: os.open('search/inner', os.O_RDONLY)), ('make', lambda: os.mkdir(f'search/{os.getuid()}')), ('missing', lambda: os.stat('search/missing')), ('link', lambda: os.symlink('x', f'search/l{os.getuid()}')), ('rename', lambda: os.rename('search/inner', 'search/moved')), ('unlink', lambda: os.unlink(f'search/l{os.getuid()}')), ('enter', lambda: os.chdir('search')), ('out', lambda: os.stat('..') and None))
made('sticky', 'u::rwx,g::-,o::-,u:1000:rwx,u:1001:rwx,m::rwx', 0o1770, directory=True)
users(('make', lambda: os.mkdir(f'sticky/{os.getuid()}')), ('take', lambda: os.rmdir('sticky/1000')), ('mine', lambda: os.rmdir(f'sticky/{os.getuid()}')))
os.mkdir('shared'); os.system('setfacl -d -m u:1000:rwx,u:1001:r,o::- shared; setfacl -m u:1000:rwx,u:1001:rwx,u:1002:rwx shared'); os.chmod('shared', 0o2777); os.chown('shared', 0, 2000)
users(('make', lambda: os.close(os.open(f'shared/{os.getuid()}', os.O_CREAT | os.O_WRONLY, 0o2676))), ('tree', lambda: os.mkdir(f'shared/d{os.getuid()}', 0o700)), *((f'{what} {uid}', lambda uid=uid, flags=flags: os.open(f'shared/{uid}', flags)) for uid in (1000, 1001, 1002) for what, flags in (('read', os.O_RDONLY), ('write', os.O_WRONLY))))
users(('in', lambda: os.mkdir('shared/d1000/x')), ('in', lambda: os.mkdir('shared/d1002/y')), ('in', lambda: os.listdir('shared/d1001') and None))
os.system('find . -print0 | sort -z | xargs -0 getfacl -np --')
# Changes show at once to who has looked before, and not in what is open.
made('changing', 'u::rw,g::-,o::-,u:1000:rw,m::rw')
reader, writer = os.pipe(); back_reader, back = os.pipe(); child = os.fork()
if child == 0:
    os.setgroups([]); os.setgid(1000); os.setuid(1000); file = os.open('changing', os.O_RDWR); print('before', attempt(lambda: os.open('changing', os.O_RDONLY)), flush=True)
    os.write(back, b'1'); os.read(reader, 1); print('after', attempt(lambda: os.open('changing', os.O_RDONLY)), os.write(file, b'still'), flush=True); os._exit(0)
os.read(back_reader, 1); os.system('setfacl -x u:1000 changing'); os.write(writer, b'1'); os.waitpid(child, 0)
P
fi
