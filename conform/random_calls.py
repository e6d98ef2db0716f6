"""fsx on a store: random calls on a file, of which it knows what must come out.

Everything it has is on, shared maps as well. By each door, and by both at once: then the file is open by both, and each call goes by
one or the other, at random (both_doors.c).
"""

import os
import pathlib
import re
import subprocess
import time

from store import BOTH, ENOUGH_SECONDS, Failed, Store, Way, must

HERE = pathlib.Path(__file__).parent
# Of the calls, by each of two doors: a coin draws which.
FAIR_SHARE = 0.2

# How often which call comes.
WEIGHTS = dict(close_open=2, read=20, write=20, mapread=10, mapwrite=10, invalidate=1, truncate=5, fsync=1, fdatasync=1,
               posix_fallocate=5, punch_hole=8, sendfile=5, posix_fadvise=2, copy_file_range=8)
# A file like most, one of many small pieces, and one changed by whole blocks (fsx does not align what it allocates).
SHAPES = [
    dict(flen=1 << 20, sizes=(1, 1 << 17, 1), weights=WEIGHTS),
    dict(flen=200_000, sizes=(1, 6000, 1), weights=WEIGHTS),
    dict(flen=8 << 20, sizes=(4096, 1 << 18, 4096), weights=WEIGHTS | dict(posix_fallocate=0)),
]


def write_settings(path, shape):
    least, most, align = shape['sizes']
    weights = ''.join(f'{name} = {weight}\n' for name, weight in shape['weights'].items())
    path.write_text(f'flen = {shape["flen"]}\n[opsize]\nmin = {least}\nmax = {most}\nalign = {align}\n'
                    f'[weights]\n{weights}')
    return path


def build_both_doors(folder):
    """The library that has a program use both doors."""
    library = folder / 'both_doors.so'
    must(['cc', '-O2', '-shared', '-fPIC', '-o', library, HERE / 'both_doors.c'])
    return library


def by_both(library, store, seed, command):
    """The same, with each call by one of the doors; what makes it so comes in front of what `cuesta run` loads."""
    settings = [f'DOORS_FIRST={store.at}/', f'DOORS_SECOND={store.mounted}/', f'DOORS_SEED={seed}']
    script = 'library=$1; shift; LD_PRELOAD="$library:$LD_PRELOAD" exec "$@"'
    return ['env', *settings, 'sh', '-c', script, 'sh', library, *command]


def went_by_both(said):
    """Whether each door had its share of the calls."""
    counted = re.search(r'calls by the doors: (\d+) and (\d+)', said)
    calls = [int(count) for count in counted.groups()] if counted else [0]
    return min(calls) > 0 and min(calls) >= FAIR_SHARE * sum(calls)


def exercise(cuesta, binary, folder, operations, seeds, door):
    """Runs it on one store, as many processes at once as there are processors."""
    library = build_both_doors(folder) if door == BOTH else None
    waiting = [(number, seed, SHAPES[number % len(SHAPES)]) for number, seed in enumerate(seeds)]
    running, wrong = [], []
    with Store(cuesta, folder, Way(door)) as store:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 1):
                number, seed, shape = waiting.pop(0)
                settings = write_settings(folder / f'fsx-{number}.toml', shape)
                command = [binary, '-f', settings, '-N', operations, '-S', seed, '-P', folder,
                           f'{store.at}/file-{number}']
                if library is not None:
                    command = by_both(library, store, seed, command)
                process = subprocess.Popen([str(part) for part in store.command(*command)], text=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                running.append((seed, shape, process, time.monotonic()))
            seed, shape, process, began = running.pop(0)
            said, _ = process.communicate(timeout=ENOUGH_SECONDS)
            came_through = process.returncode == 0 and 'All operations completed' in said
            came_through = came_through and (library is None or went_by_both(said))
            print(f'fsx, {door}: {operations:,} operations on {shape["flen"]:,} bytes, seed {seed}: '
                  f'{"as they should be" if came_through else "WRONG"} ({time.monotonic() - began:.0f} s)', flush=True)
            if not came_through:
                wrong.append(f'fsx, {door}, seed {seed}, {shape}: exit status {process.returncode}\n{said[-6000:]}')
        store.check()
    if wrong:
        raise Failed('\n'.join(wrong))
