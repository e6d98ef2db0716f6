"""pjdfstest, by each way to a store, beside ext4.

What passes on ext4 and not on the store is a failure, unless the door's file of differences says why. As another user than root
the suite does what it can without being root. ext4 is mounted from an image, in a mount namespace of our own; where that is not
allowed its part is taken by ext4.txt, which lists what passed there.
"""

import fnmatch
import grp
import os
import pathlib
import pwd
import re
import subprocess

from store import MOUNT, PRELOAD, Failed, Store, Way, by_user, give, must, run

HERE = pathlib.Path(__file__).parent
IMAGE_BYTES = 192 << 20
# Any two who are not root, with the groups they are in first. The first also runs the suite.
USERS = ('nobody', 'daemon')
OTHER = USERS[0]
# Longer than ext4's clock, which moves with the kernel's ticks.
NAP_SECONDS = 0.02
# pjdfstest makes its folders two deep below the one it is given, each with a slash and ten letters.
OWN_FOLDERS_BYTES = 22

# As root, and as another user: on a store of that user's, on root's by the daemon, and on a mount of root's.
WAYS = {
    None: [Way(PRELOAD), Way(MOUNT)],
    OTHER: [Way(PRELOAD, owner=OTHER, user=OTHER), Way(PRELOAD, user=OTHER), Way(MOUNT, user=OTHER)],
}


def differences(way):
    """The list of what is otherwise this way than on ext4, and why."""
    if way.door == MOUNT:
        return 'differences-mount.txt'
    return 'differences.txt' if way.user == way.owner else 'differences-served.txt'


def folder_name(base):
    """The name of a folder below `base` whose path has no length the suite cannot count with."""
    name = 'pjdfstest'
    while (4095 - len(f'{base}/{name}') - OWN_FOLDERS_BYTES) % 127 == 0:
        name += '-'
    return name


def write_settings(path):
    entries = [[user, grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name] for user in USERS]
    features = ['posix_fallocate', 'rename_ctime', 'stat_st_birthtime', 'utime_now', 'utimensat']
    text = '[features]\n' + ''.join(f'{feature} = {{}}\n' for feature in features)
    text += f'[settings]\nnaptime = {NAP_SECONDS}\n[dummy_auth]\nentries = {entries!r}\n'
    path.write_text(text)
    return path


def results(text):
    """What pjdfstest said of each test: its word (ok, skipped, FAILED) and its reason."""
    found, name = {}, None
    for line in text.splitlines():
        if match := re.fullmatch(r'(\S+::\S+)\s+(ok|skipped|FAILED)', line):
            name = match[1]
            found[name] = (match[2], '')
        elif name and line.startswith('\t') and not found[name][1]:
            found[name] = (found[name][0], line.strip())
    if 'Summary:' not in text or not found:
        raise Failed(f'pjdfstest did not come to its end:\n{text[-3000:]}')
    return found


def count(found):
    words = [word for word, _ in found.values()]
    return ', '.join(f'{words.count(word)} {said}' for word, said in
                     [('ok', 'passed'), ('FAILED', 'failed'), ('skipped', 'skipped')])


def tell(what, reasons):
    """Says of tests that something is so, each reason once."""
    for reason in dict.fromkeys(reasons.values()):
        print(f'  {what} ({reason}): {", ".join(name for name, why in sorted(reasons.items()) if why == reason)}')


def tell_skipped(found, told=()):
    """Says what was skipped, but for what was told before."""
    tell('skipped', {name: reason for name, (word, reason) in found.items() if word == 'skipped' and name not in told})


def pjdfstest(command):
    environment = os.environ | {'NO_COLOR': '1', 'RUST_BACKTRACE': '0'}
    done = run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd='/')
    return results(done.stdout)


def on_ext4(binary, settings, folder, second, user):
    """What pjdfstest says of ext4; None where no image can be mounted."""
    image, mount = folder / 'ext4-image', folder / 'ext4'
    mount.mkdir()
    with open(image, 'wb') as file:
        file.truncate(IMAGE_BYTES)
    must(['mkfs.ext4', '-q', '-F', image])
    where = f'{mount}/{folder_name(mount)}'
    # In a namespace of its own the mount goes with the last process in it, and the loop device with the mount.
    inside = ['unshare', '--mount', '--propagation', 'private', 'sh', '-ec',
              'mount -o loop "$1" "$2"; mkdir "$3"; [ -z "$4" ] || chown "$4:" "$3"; shift 4; exec "$@"', 'sh',
              image, mount, where, user or '']
    try:
        return pjdfstest([*inside, *by_user(user, [binary, '-c', settings, '-s', second, '-p', where])])
    except Failed as failed:
        print(f'no ext4: {failed}')
        return None
    finally:
        image.unlink()
        mount.rmdir()


def listed(name):
    lines = (HERE / name).read_text().splitlines()
    return dict((line.split(None, 1) + [''])[:2] for line in lines if line and not line.startswith('#'))


def compare(cuesta, binary, folder, doors, users):
    """Runs it by each door and as each user; fails with all that is wrong."""
    settings = write_settings(folder / 'pjdfstest.toml')
    wrong = []
    for user in users:
        second = folder / f'second-{user or "own"}'
        second.mkdir()
        give(second, user)
        whose = f' as {user}' if user else ''
        theirs = on_ext4(binary, settings, folder, second, user) if os.geteuid() == 0 else None
        if theirs is None:
            print(f'pjdfstest on ext4{whose}: not to be had here; ext4.txt stands for it')
            passed, skipped = set(listed('ext4.txt')), set()
        else:
            print(f'pjdfstest on ext4{whose}: {count(theirs)}')
            tell_skipped(theirs)
            passed, skipped = ({name for name, (word, _) in theirs.items() if word == said}
                               for said in ('ok', 'skipped'))
        for way in WAYS[user]:
            if way.door in doors:
                ours = on_cuesta(cuesta, binary, folder, settings, second, way)
                print(f'pjdfstest on Cuesta, {way}: {count(ours)}')
                tell_skipped(ours, skipped)
                found = differing(ours, passed, way, are_roots=theirs is None)
                wrong += [f'{way}: {what}' for what in found]
    if wrong:
        raise Failed('pjdfstest:\n  ' + '\n  '.join(wrong))


def on_cuesta(cuesta, binary, folder, settings, second, way):
    with Store(cuesta, folder, way) as store:
        where = store.folder(folder_name(store.at))
        ours = pjdfstest(store.command(binary, '-c', settings, '-s', second, '-p', where))
        store.check()
    return ours


def differing(ours, passed, way, are_roots):
    """What is wrong this way, where `passed` is what passes on ext4: as the same user, unless they `are_roots`."""
    tests = sorted(passed | set(ours))
    matched = {pattern: fnmatch.filter(tests, pattern) for pattern in listed(differences(way))}
    known = {name: why for pattern, why in listed(differences(way)).items() for name in matched[pattern]}
    tell('differs', {name: why for name, why in known.items() if name in passed and ours.get(name, ('', ''))[0] != 'ok'})
    wrong = [f'no test is called {pattern}, which {differences(way)} lists' for pattern, names in matched.items() if not names]
    for name in sorted(passed | set(known)):
        word, reason = ours.get(name, ('missing', ''))
        if name in known:
            if word == 'ok':
                wrong.append(f'{name} passes: {differences(way)} says otherwise')
        elif word != 'ok' and not (are_roots and way.user and 'requires root' in reason):
            wrong.append(f'{name} {word}, and passes on ext4: {reason}')
    return wrong
