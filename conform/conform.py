"""Holds the store against two test suites others wrote: pjdfstest (POSIX calls) and fsx (random calls on a file).

Usage: conform.py CUESTA FOLDER [--suite SUITE] [--door DOOR] [--user USER] [--operations N] [--seeds N] [--seed N]

Both run by each door, under `cuesta run` and on a mount: pjdfstest as root and as another user (posix_calls.py), fsx by both doors at
once as well (random_calls.py). The suites are installed from crates.io at the versions below, into FOLDER.
"""

import argparse
import os
import pathlib
import random
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True

import posix_calls
import random_calls
from store import BOTH, MOUNT, PRELOAD, Failed, must

SUITES = {'pjdfstest': '0.2.2', 'fsx': '0.3.2'}
DOORS = {'run': PRELOAD, 'mount': MOUNT, 'both': BOTH}
USERS = {'own': None, 'other': posix_calls.OTHER}


def install(folder):
    """Installs what is missing of the suites; returns where their commands are."""
    listed = folder / '.crates.toml'
    have = listed.read_text() if listed.exists() else ''
    for name, version in SUITES.items():
        if f'"{name} {version} ' not in have or not (folder / 'bin' / name).exists():
            print(f'installing {name} {version} from crates.io', flush=True)
            must(['cargo', 'install', '--quiet', '--debug', '--locked', '--force', '--root', folder, '--target-dir', folder / 'build',
                  f'{name}@={version}'])
    shutil.rmtree(folder / 'build', ignore_errors=True)
    return folder / 'bin'


def within_reach(work, *files):
    """Copies of the files where every user reaches them."""
    return [pathlib.Path(shutil.copy2(file, work)) for file in files]


def choose(chosen, among, can, why_not):
    """What was asked for, or all that can be had; says what cannot."""
    if chosen is not None:
        return [among[chosen]]
    for what in among.values():
        if not can(what):
            print(f'skipped: {what} ({why_not})')
    return [what for what in among.values() if can(what)]


def main():
    parser = argparse.ArgumentParser(description='Holds the store against pjdfstest and fsx.')
    parser.add_argument('cuesta', type=pathlib.Path)
    parser.add_argument('folder', type=pathlib.Path, help='for what is installed; kept')
    parser.add_argument('--suite', choices=SUITES, help='only this one')
    parser.add_argument('--door', choices=DOORS, help='only by this one, or (fsx) by both at once')
    parser.add_argument('--user', choices=USERS, help='pjdfstest only as who runs this, or as another user')
    parser.add_argument('--operations', type=int, default=50_000, help='of fsx, for each seed (it never unmaps what it has read)')
    parser.add_argument('--seeds', type=int, default=21, help='how many times fsx runs, by each door')
    parser.add_argument('--seed', type=int, default=random.randrange(1 << 32), help="fsx's first seed")
    given = parser.parse_args()
    is_root = os.geteuid() == 0
    can_mount = is_root and os.access('/dev/fuse', os.R_OK | os.W_OK)
    doors = choose(given.door, DOORS, lambda door: can_mount or door == PRELOAD, 'FUSE is not to be had here')
    users = choose(given.user, USERS, lambda user: is_root or user is None, 'only root becomes another user')
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix='cuesta-conform-'))
    work.chmod(0o755)
    failures = []
    try:
        commands = install(folder / 'suites')
        library = given.cuesta.resolve().with_name('libcuesta_preload.so')
        cuesta, _, pjdfstest, fsx = within_reach(work, given.cuesta.resolve(), library, commands / 'pjdfstest', commands / 'fsx')
        seeds = range(given.seed, given.seed + given.seeds)
        suites = []
        if given.suite != 'fsx':
            suites.append(lambda: posix_calls.compare(cuesta, pjdfstest, work, doors, users))
        if given.suite != 'pjdfstest':
            suites += [lambda door=door: random_calls.exercise(cuesta, fsx, work, given.operations, seeds, door)
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
