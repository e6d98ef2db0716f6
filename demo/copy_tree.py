"""Copies a tree file by file, each durable before the next: an ordinary program that knows nothing of Cuesta.

Usage: copy_tree.py FROM TO COPIES [LIMIT]

The copies go to TO/1, TO/2 and so on. A line on standard output acknowledges each file: from then on it must survive anything. Files that are in
place already are passed over, so that a run that was killed can be continued.
"""

import os
import sys


def sync_directory(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy(source, target):
    with open(source, "rb") as original:
        content = original.read()
    part = target + ".part"
    with open(part, "wb") as copied:
        copied.write(content)
        copied.flush()
        os.fsync(copied.fileno())
    os.rename(part, target)
    sync_directory(os.path.dirname(target))


def missing(origin, destination):
    """The files that are not in place yet, as pairs; makes their directories."""
    for folder, folders, files in os.walk(origin):
        folders.sort()
        there = os.path.normpath(os.path.join(destination, os.path.relpath(folder, origin)))
        os.makedirs(there, exist_ok=True)
        for name in sorted(files):
            source, target = os.path.join(folder, name), os.path.join(there, name)
            if os.path.isfile(source) and not os.path.exists(target):
                yield source, target


def main():
    origin, destination, copies = sys.argv[1], sys.argv[2], int(sys.argv[3])
    left = int(sys.argv[4]) if len(sys.argv) > 4 else sys.maxsize
    for number in range(1, copies + 1):
        for source, target in missing(origin, os.path.join(destination, str(number))):
            copy(source, target)
            sys.stdout.write(os.path.relpath(target, destination) + "\n")
            sys.stdout.flush()
            left -= 1
            if left == 0:
                return


main()
