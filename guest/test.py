"""Tests in a guest with an emulated persistent memory (guest.py), mounted with DAX or as a disk: core suites, and what is left
when the power goes.

tests: the suites of the crates that store and read, with every store on ext4 with DAX, mapped with MAP_SYNC.
cuts:  a program appends records to a file and replaces others, with fsync; the guest is killed in the middle. The next one
       finds in the store all that was told to the host before, and `cuesta fsck` finds nothing wrong. On both media, and with
       the NVDIMM as a device of bytes, which is another store's once; and with a disk below a fast tier that is too small, which `device` has
       as well.
optimistic: the same with a store in optimistic mode on the NVDIMM as a disk, and SQLite beside. The next guest finds what was told
       longer before than the bound, and nothing without what had returned before it began.
nodes: two memory nodes; the log of a program on one lies there.
platform: what the firmware says of caches when the power goes (both of what it may say), poisoned pages, a device of bytes.
kills: programs, the daemon and the mount are killed with SIGKILL (kill-campaign), in a guest that stays; on DAX, and on the device.

Usage: test.py TARGET [--profile NAME] [--slice] [--only cuts|kills|nodes|optimistic|platform|tests] [--medium pmem|block|device|below] [--suite NAME] [--cuts N] [--kills N] [--seed N].
--slice: platform and a cut, for every day. TARGET is cargo's folder; the guest reads the host's files.
"""

import argparse
import json
import pathlib
import random
import shlex
import subprocess
import sys
import time

import guest
import optimistic

# What a store is made of, and how the NVDIMM is mounted for that: `device` is not, and what of the store is in files lies on a disk.
# `below` and `device` have a disk below a fast tier that does not hold all.
DAX = {'pmem': 'always', 'block': 'never', 'device': 'none', 'below': 'always'}
PLACES = {
    'pmem': '--medium pmem --nvm 512M',
    'block': '--medium block --nvm 512M',
    'device': '--nvm-path /dev/dax0.0 --nvm 16M --tier disk=/dev/shm/tier:256M',
    'below': '--medium pmem --nvm 16M --tier disk=/run/disk/tier:256M',
}
CRATES = ['cuesta-media', 'cuesta-oplog', 'cuesta-sharedfs', 'cuesta-libfs']
# Until it is killed a guest has at least so many records acknowledged, and at most this many more.
RECORDS_LEAST, RECORDS_MORE = 20, 400
# In optimistic mode.
RECORDS_MORE_AT_ONCE = 150
KILLS_PER_STORE = 6
# A guest is some twenty times slower than its host.
GUEST_SECONDS_MAX = 3600


def job(folder, name, medium, script):
    """A file with a job: the script, with what is writable before it and the guest's end behind it."""
    file = folder / name
    file.write_text(f'dax={DAX[medium]} medium={medium}\n. {shlex.quote(str(guest.HERE / "mount.sh"))}\n{script}\npoweroff_now\n')
    return file


def suites():
    """Test programs, and the folder of each's package."""
    command = ['cargo', 'test', '--release', '--no-run', '--message-format', 'json']
    for crate in CRATES:
        command += ['-p', crate]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in built.splitlines():
        said = json.loads(line)
        if said.get('executable') and said['profile']['test']:
            yield said['executable'], pathlib.Path(said['manifest_path']).parent


def called(program, package):
    """A test program's name: suites of several crates have the same one."""
    return f'{package.name}/{pathlib.Path(program).name}'


def run_tests(folder, medium, suite):
    programs = [(program, package) for program, package in suites() if suite in called(program, package)]
    script = f'export CUESTA_TEST_MEDIUM={medium} TMPDIR=/dev/shm/tmp RUST_BACKTRACE=0\n'
    for program, package in programs:
        script += f'cd {shlex.quote(str(package))}; echo "begins {called(program, package)}"\n'
        script += f'if {shlex.quote(program)} --color=never 2>&1; then echo "suite passed"; else echo "suite failed"; fi\n'
    guest.forget(folder)
    began, passed, failed, name, lines = time.monotonic(), 0, [], '', []
    with guest.Guest(folder, job(folder, 'tests', medium, script)) as running:
        for line in running.lines():
            lines.append(line)
            if line.startswith('begins '):
                name, lines = line.split(' ', 1)[1], []
            elif line == 'suite passed':
                passed += 1
                told = next((line for line in reversed(lines) if line.startswith('test result')), '')
                print(f'{time.monotonic() - began:5.0f} s  {name}: {told}', flush=True)
            elif line == 'suite failed':
                failed.append(name)
                print('\n'.join([f'{time.monotonic() - began:5.0f} s  {name}: FAILED'] + lines[-60:]), flush=True)
            elif line.startswith('guest failed'):
                raise guest.Failed('\n'.join([f'{name} on {medium}:'] + lines[-60:]))
            if time.monotonic() - began > GUEST_SECONDS_MAX:
                raise guest.Failed(f'{name} does not come to an end')
    if failed:
        raise guest.Failed(f'failed on {medium}: ' + ', '.join(failed))
    if passed != len(programs):
        raise guest.Failed('\n'.join([f'the guest ended in {name}:'] + lines[-20:]))
    print(f'{passed} suites passed on {medium}', flush=True)


def at_work(cuesta, action):
    run = f'{cuesta} run --store /dev/shm/store -- python3 {shlex.quote(str(guest.HERE / "at_work.py"))}'
    return f'PYTHONDONTWRITEBYTECODE=1 {run} {action}'


def hear(running, until):
    """What is said until `until` says that it is enough."""
    for line in running.lines():
        if line.startswith(('guest failed', 'wrong: ')):
            raise guest.Failed(line)
        if until(line):
            return
    raise guest.Failed('the guest ended by itself; its console: ' + str(running.console))


def run_cuts(folder, medium, cuesta, cuts, chance):
    cuesta = shlex.quote(str(cuesta))
    guest.forget(folder)
    make = f'{cuesta} mkfs /dev/shm/store {PLACES[medium]} || echo wrong: mkfs\n'
    if '--tier' in PLACES[medium]:
        make += at_work(cuesta, 'fill') + '\n'
    acknowledged = 0
    for cut in range(cuts):
        check = f'{cuesta} fsck /dev/shm/store || echo wrong: fsck\n{at_work(cuesta, f"look {acknowledged}")}\n'
        script = (make if cut == 0 else check) + at_work(cuesta, 'work')
        goal = acknowledged + RECORDS_LEAST + chance.randrange(RECORDS_MORE)

        def is_enough(line):
            nonlocal acknowledged
            if line.startswith('acknowledged '):
                acknowledged = int(line.split()[1])
            return acknowledged >= goal

        with guest.Guest(folder, job(folder, 'work', medium, script)) as running:
            hear(running, is_enough)
            running.cut_power()
            # What it had said before it ended counts.
            for line in running.lines():
                is_enough(line)
        print(f'{medium}, cut {cut + 1} of {cuts}: {acknowledged} records acknowledged', flush=True)
    script = f'{cuesta} fsck /dev/shm/store || echo wrong: fsck\n{at_work(cuesta, f"look {acknowledged}")}\n'
    if medium == 'device':
        other = f'{cuesta} mkfs /dev/shm/other --nvm-path /dev/dax0.0 --nvm 256M'
        script += f'''{other} 2>&1 | grep -q "holds the store" && {cuesta} stop /dev/shm/store && {other} --overwrite-device &&
{cuesta} run --store /dev/shm/other -- sh -c 'echo new >/cuesta/new' &&
{cuesta} fsck /dev/shm/store 2>&1 | grep -q "and not this one" && echo "one store" || echo "wrong: a device of two stores"
'''
    with guest.Guest(folder, job(folder, 'look', medium, script)) as running:
        hear(running, lambda line: line == 'all there')
        if medium == 'device':
            hear(running, lambda line: line == 'one store')
    print(f'{medium}: all {acknowledged} records are there after {cuts} cuts', flush=True)


def run_optimistic(folder, cuesta, cuts, chance):
    cuesta = shlex.quote(str(cuesta))
    guest.forget(folder)
    make = f'{cuesta} mkfs /dev/shm/store {PLACES["block"]} --durability optimistic || echo wrong: mkfs\n'
    look = f'{cuesta} fsck /dev/shm/store || echo wrong: fsck\n'
    before, last, oldest_ms, told = {'log': 0, 'sqlite': 0}, optimistic.Heard(), 0, 0
    for cut in range(cuts + 1):
        script = (make if cut == 0 else look) + at_work(cuesta, 'find go_on' if cut < cuts else 'find')
        began, heard, found = time.monotonic(), optimistic.Heard(), {}
        goal = RECORDS_LEAST + chance.randrange(RECORDS_MORE_AT_ONCE)

        def has_found(line):
            words = line.split()
            if words[:1] == ['found'] and len(words) == 3:
                found[words[1]] = int(words[2])
            return line == 'found all'

        with guest.Guest(folder, job(folder, 'optimistic', 'block', script)) as running:
            hear(running, has_found)
            why = last.wrong(found, before)
            if why:
                raise guest.Failed(f'cut {cut}: {why}')
            oldest_ms = max(oldest_ms, last.oldest_lost_ms(found))
            before, last = found, heard
            if cut == cuts:
                break
            hear(running, lambda line: heard.hear(line) and heard.count() >= goal)
            running.cut_power()
            # What they had said before it ended counts.
            for line in running.lines():
                heard.hear(line)
        told += heard.count()
        print(f'optimistic, cut {cut + 1} of {cuts}: {heard.count()} records told, {time.monotonic() - began:.1f} s', flush=True)
    print(f'optimistic: {told} records told, and {sum(before.values())} are there after {cuts} cuts; the oldest of the others had returned '
          f'{oldest_ms:.0f} ms before its program began the last one', flush=True)


def run_platform(folder, cuesta):
    cuesta, program = shlex.quote(str(cuesta)), shlex.quote(str(guest.HERE / 'platform.py'))
    for persistence, domain in {'cpu': 'cpu_cache', 'mem-ctrl': 'memory_controller'}.items():
        script = f'''PYTHONDONTWRITEBYTECODE=1 python3 {program} {cuesta} /dev/shm/store {domain}
umount /dev/shm && ndctl create-namespace -f -e namespace0.0 --mode=devdax >/run/ndctl.log 2>&1 || cat /run/ndctl.log
{cuesta} mkfs /dev/dax0.0 2>&1 | grep -q 'ndctl create-namespace -f -e namespace0.0 --mode=fsdax' && echo "device refused"
'''
        guest.forget(folder)
        with guest.Guest(folder, job(folder, 'platform', 'pmem', script), persistence=persistence) as running:
            hear(running, lambda line: line.startswith('platform ') and not print(line, flush=True))
            hear(running, lambda line: line == 'device refused')


def run_nodes(folder, cuesta):
    cuesta, program = shlex.quote(str(cuesta)), shlex.quote(str(guest.HERE / 'nodes.py'))
    script = f'PYTHONDONTWRITEBYTECODE=1 python3 {program} {cuesta} /run/store 2>&1'
    guest.forget(folder)
    with guest.Guest(folder, job(folder, 'nodes', 'pmem', script), nodes=2) as running:
        hear(running, lambda line: line.startswith('nodes: ') and not print(line, flush=True))


def run_kills(folder, medium, campaign, kills, seed):
    on = '--device /dev/dax0.0' if medium == 'device' else ''
    script = f'{shlex.quote(str(campaign))} --kills {kills} --kills-per-store {KILLS_PER_STORE} --seed {seed} {on} && echo "none lost"\n'
    guest.forget(folder)
    lines = []
    with guest.Guest(folder, job(folder, 'kills', medium, script)) as running:
        for line in running.lines():
            lines.append(line)
            print(line, flush=True)
    if 'none lost' not in lines:
        raise guest.Failed('something is lost, or the guest ended by itself; its console: ' + str(running.console))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('target', type=pathlib.Path)
    parser.add_argument('--profile', default='release', help='by which cargo profile it was built (default: %(default)s)')
    parser.add_argument('--slice', action='store_true', help='platform, and one cut of device')
    parser.add_argument('--only', choices=['cuts', 'kills', 'nodes', 'optimistic', 'platform', 'tests'])
    parser.add_argument('--medium', choices=list(DAX), help='one of them [default: all for cuts, pmem and device for kills, pmem for tests]')
    parser.add_argument('--suite', default='', help='only test programs whose names contain this, as libfs/suite')
    parser.add_argument('--cuts', type=int, default=3)
    parser.add_argument('--kills', type=int, default=24)
    parser.add_argument('--seed', type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    if arguments.slice:
        parts, media, cuts = ['platform', 'cuts'], ['device'], 1
    else:
        parts = [arguments.only] if arguments.only else ['cuts', 'optimistic', 'platform', 'nodes', 'kills', 'tests']
        media, cuts = [arguments.medium] if arguments.medium else list(DAX), arguments.cuts
    target = arguments.target.resolve()
    folder, built = target / 'guest', target / arguments.profile
    folder.mkdir(parents=True, exist_ok=True)
    print(f'seed {arguments.seed}', flush=True)
    try:
        if 'cuts' in parts:
            for medium in media:
                run_cuts(folder, medium, built / 'cuesta', cuts, random.Random(arguments.seed))
        if 'optimistic' in parts:
            run_optimistic(folder, built / 'cuesta', cuts, random.Random(arguments.seed))
        if 'platform' in parts:
            run_platform(folder, built / 'cuesta')
        if 'nodes' in parts:
            run_nodes(folder, built / 'cuesta')
        if 'kills' in parts:
            for medium in [arguments.medium] if arguments.medium else ['pmem', 'device']:
                run_kills(folder, medium, built / 'kill-campaign', arguments.kills, arguments.seed)
        if 'tests' in parts:
            run_tests(folder, arguments.medium or 'pmem', arguments.suite)
    except guest.Failed as failed:
        sys.exit(f'test-pmem: {failed}')
    guest.forget(folder)


if __name__ == '__main__':
    main()
