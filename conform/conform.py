"""Holds the store against two test suites others wrote: pjdfstest (POSIX calls) and fsx (random I/O on a file).

Usage: conform.py CUESTA FOLDER [--operations N] [--seeds N] [--seed N] [--door DOOR]

pjdfstest runs on ext4 and on the store; what passes there and not here is a failure, unless the door's file of
differences says why. ext4 is mounted from an image for that, in a mount namespace of our own; where that is not allowed its part
is taken by ext4.txt, which lists what passed there. fsx knows what must come out; everything it has is on, shared maps
as well. Both run by each door: under `cuesta run`, and on a mount.

The suites are installed from crates.io at the versions below, into FOLDER.
"""

import argparse
import fnmatch
import grp
import os
import pathlib
import pwd
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

SUITES = {'pjdfstest': '0.2.2', 'fsx': '0.3.2'}
HERE = pathlib.Path(__file__).parent
STORE_SIZE = '256M'
IMAGE_BYTES = 192 << 20
# Any two who are not root, with the groups they are in first.
USERS = ('nobody', 'daemon')
# Longer than ext4's clock, which moves with the kernel's ticks.
NAP_SECONDS = 0.02
# pjdfstest makes its folders two deep below the one it is given, each with a slash and ten letters.
OWN_FOLDERS_BYTES = 22
ENOUGH_SECONDS = 1800

# How often which call comes.
WEIGHTS = dict(close_open=2, read=20, write=20, mapread=10, mapwrite=10, invalidate=1, truncate=5, fsync=1, fdatasync=1,
               posix_fallocate=5, punch_hole=8, sendfile=5, posix_fadvise=2, copy_file_range=8)
# A file like most, one of many small pieces, and one changed by whole blocks (fsx does not align what it allocates).
SHAPES = [
    dict(flen=1 << 20, sizes=(1, 1 << 17, 1), weights=WEIGHTS),
    dict(flen=200_000, sizes=(1, 6000, 1), weights=WEIGHTS),
    dict(flen=8 << 20, sizes=(4096, 1 << 18, 4096), weights=WEIGHTS | dict(posix_fallocate=0)),
]


# The doors to a store.
PRELOAD, MOUNT = 'cuesta run', 'the mount'
# What each of them does otherwise than ext4, and why.
DIFFERENCES = {PRELOAD: 'differences.txt', MOUNT: 'differences-mount.txt'}


class Failed(Exception):
    """A suite found something, or could not run."""


def run(command, **more):
    return subprocess.run([str(part) for part in command], text=True, timeout=ENOUGH_SECONDS, **more)


def must(command, **more):
    done = run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        raise Failed(f'{" ".join(str(part) for part in command)}:\n{done.stdout}')
    return done.stdout


def install(folder):
    """Installs what is missing of the suites; returns where their commands are."""
    listed = folder / '.crates.toml'
    have = listed.read_text() if listed.exists() else ''
    for name, version in SUITES.items():
        if f'"{name} {version} ' not in have or not (folder / 'bin' / name).exists():
            print(f'installing {name} {version} from crates.io', flush=True)
            must(['cargo', 'install', '--quiet', '--locked', '--force', '--root', folder, '--target-dir', folder / 'build',
                  f'{name}@={version}'])
    shutil.rmtree(folder / 'build', ignore_errors=True)
    return folder / 'bin'


class Store:
    """A store for the length of a `with`, behind one of its doors."""

    def __init__(self, cuesta, folder, door):
        self.cuesta, self.path, self.door = cuesta, folder / 'store', door
        # Sockets have short names.
        self.at = '/cuesta' if door == PRELOAD else tempfile.mkdtemp(prefix='cuesta-')

    def __enter__(self):
        self.remove()
        must([self.cuesta, 'mkfs', self.path, '--medium', 'memory', '--nvm', STORE_SIZE])
        if self.door == MOUNT:
            must([self.cuesta, 'mount', '--allow-other', self.path, self.at])
        return self

    def __exit__(self, *_):
        self.remove()
        if self.door == MOUNT:
            os.rmdir(self.at)

    def command(self, *command):
        if self.door == MOUNT:
            return list(command)
        return [self.cuesta, 'run', '--store', self.path, '--at', self.at, '--', *command]

    def check(self):
        """What is stored holds together."""
        if self.door == MOUNT:
            must([self.cuesta, 'unmount', self.at])
        must([self.cuesta, 'stop', self.path])
        must([self.cuesta, 'fsck', self.path])

    def remove(self):
        if os.path.ismount(self.at):
            run([self.cuesta, 'unmount', '--lazy', self.at])
        if not self.path.exists():
            return
        run([self.cuesta, 'stop', self.path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        nvm = self.path / 'nvm'
        if nvm.is_symlink():
            shutil.rmtree(nvm.resolve(), ignore_errors=True)
        shutil.rmtree(self.path)


def pjdfstest_folder(base):
    """A folder below `base` whose name has no length the suite cannot count with."""
    name = 'pjdfstest'
    while (4095 - len(f'{base}/{name}') - OWN_FOLDERS_BYTES) % 127 == 0:
        name += '-'
    return f'{base}/{name}'


def pjdfstest_settings(path):
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


def pjdfstest(command):
    environment = os.environ | {'NO_COLOR': '1', 'RUST_BACKTRACE': '0'}
    return results(run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment).stdout)


def on_ext4(binary, settings, folder):
    """What pjdfstest says of ext4; None where no image can be mounted."""
    image, mount = folder / 'ext4-image', folder / 'ext4'
    mount.mkdir()
    with open(image, 'wb') as file:
        file.truncate(IMAGE_BYTES)
    must(['mkfs.ext4', '-q', '-F', image])
    # In a namespace of its own the mount goes with the last process in it, and the loop device with the mount.
    inside = ['unshare', '--mount', '--propagation', 'private', 'sh', '-ec',
              'mount -o loop "$1" "$2"; where=$3; mkdir "$where"; shift 3; exec "$@" -p "$where"', 'sh',
              image, mount, pjdfstest_folder(mount)]
    try:
        return pjdfstest([*inside, binary, '-c', settings, '-s', folder / 'second'])
    except Failed as failed:
        print(f'no ext4: {failed}')
        return None
    finally:
        image.unlink()
        mount.rmdir()


def listed(name):
    lines = (HERE / name).read_text().splitlines()
    return dict((line.split(None, 1) + [''])[:2] for line in lines if line and not line.startswith('#'))


def compare_posix(cuesta, binary, folder, doors):
    settings = pjdfstest_settings(folder / 'pjdfstest.toml')
    (folder / 'second').mkdir()
    theirs = on_ext4(binary, settings, folder) if os.geteuid() == 0 else None
    if theirs is None:
        print('pjdfstest on ext4: not to be had here; ext4.txt stands for it')
        passed = set(listed('ext4.txt'))
    else:
        print(f'pjdfstest on ext4: {count(theirs)}')
        passed = {name for name, (word, _) in theirs.items() if word == 'ok'}
    wrong = [f'{door}: {what}' for door in doors
             for what in differing(cuesta, binary, folder, settings, passed, door)]
    if wrong:
        raise Failed('pjdfstest:\n  ' + '\n  '.join(wrong))


def differing(cuesta, binary, folder, settings, passed, door):
    """What is wrong behind a door, where `passed` is what passes on ext4."""
    with Store(cuesta, folder, door) as store:
        where = pjdfstest_folder(store.at)
        script = 'mkdir -m 755 "$1" && where=$1 && shift && exec "$@" -p "$where"'
        ours = pjdfstest(store.command('sh', '-c', script, 'sh', where, binary, '-c', settings, '-s', folder / 'second'))
        store.check()
    print(f'pjdfstest on Cuesta, {door}: {count(ours)}')
    for name, (word, reason) in sorted(ours.items()):
        if word == 'skipped':
            print(f'  skipped: {name} ({reason})')
    known = {name: why for pattern, why in listed(DIFFERENCES[door]).items()
             for name in fnmatch.filter(passed, pattern) or [pattern]}
    wrong = []
    for name in sorted(passed | set(known)):
        word, reason = ours.get(name, ('missing', ''))
        if name in known and word == 'ok':
            wrong.append(f'{name} passes: {DIFFERENCES[door]} says otherwise')
        elif name in known:
            print(f'  differs: {name} ({known[name]})')
        elif word != 'ok' and 'requires root' not in reason:
            wrong.append(f'{name} {word}, and passes on ext4: {reason}')
    return wrong


def exercise(cuesta, binary, folder, operations, seeds, door):
    """Runs fsx on one store, as many processes at once as there are processors."""
    waiting = []
    for number, seed in enumerate(seeds):
        shape = SHAPES[number % len(SHAPES)]
        least, most, align = shape['sizes']
        settings = folder / f'fsx-{number}.toml'
        weights = ''.join(f'{name} = {weight}\n' for name, weight in shape['weights'].items())
        settings.write_text(f'flen = {shape["flen"]}\n[opsize]\nmin = {least}\nmax = {most}\nalign = {align}\n'
                            f'[weights]\n{weights}')
        waiting.append((seed, shape, [binary, '-f', settings, '-N', operations, '-S', seed, '-P', folder, number]))
    running, wrong = [], []
    with Store(cuesta, folder, door) as store:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 1):
                seed, shape, command = waiting.pop(0)
                command[-1] = f'{store.at}/file-{command[-1]}'
                process = subprocess.Popen([str(part) for part in store.command(*command)], text=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                running.append((seed, shape, process, time.monotonic()))
            seed, shape, process, began = running.pop(0)
            said, _ = process.communicate(timeout=ENOUGH_SECONDS)
            came_through = process.returncode == 0 and 'All operations completed' in said
            print(f'fsx, {door}: {operations:,} operations on {shape["flen"]:,} bytes, seed {seed}: '
                  f'{"as they should be" if came_through else "WRONG"} ({time.monotonic() - began:.0f} s)', flush=True)
            if not came_through:
                wrong.append(f'fsx, {door}, seed {seed}, {shape}:\n{said[-6000:]}')
        store.check()
    if wrong:
        raise Failed('\n'.join(wrong))


def can_mount():
    return os.geteuid() == 0 and os.access('/dev/fuse', os.R_OK | os.W_OK)


def main():
    parser = argparse.ArgumentParser(description='Holds the store against pjdfstest and fsx.')
    parser.add_argument('cuesta', type=pathlib.Path)
    parser.add_argument('folder', type=pathlib.Path, help='for what is installed and made; kept')
    parser.add_argument('--operations', type=int, default=1_000_000, help='of fsx, for each seed')
    parser.add_argument('--seeds', type=int, default=6, help='how many times fsx runs')
    parser.add_argument('--seed', type=int, default=random.randrange(1 << 32), help="fsx's first seed")
    parser.add_argument('--door', choices=('run', 'mount'), help='only by this one')
    given = parser.parse_args()
    doors = {None: [PRELOAD, MOUNT] if can_mount() else [PRELOAD], 'run': [PRELOAD], 'mount': [MOUNT]}[given.door]
    if MOUNT not in doors and given.door is None:
        print('skipped: the mount (FUSE is not to be had here)')
    cuesta, folder = given.cuesta.resolve(), given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    work = folder / 'work'
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    failures = []
    try:
        commands = install(folder / 'suites')
        seeds = range(given.seed, given.seed + given.seeds)
        suites = [lambda: compare_posix(cuesta, commands / 'pjdfstest', work, doors)]
        suites += [lambda door=door: exercise(cuesta, commands / 'fsx', work, given.operations, seeds, door)
                   for door in doors]
        for suite in suites:
            try:
                suite()
            except Failed as failed:
                failures.append(f'FAILED: {failed}')
    except Failed as failed:
        failures.append(f'FAILED: {failed}')
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit('\n'.join(failures) or 0)


if __name__ == '__main__':
    main()
