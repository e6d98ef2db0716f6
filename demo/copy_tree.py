"""Copies a tree file by file, each durable before the next: an ordinary program that knows nothing of Cuesta.

Usage: copy_tree.py FROM TO [LIMIT]

A line on standard output acknowledges each file: from then on it must survive anything. Files that are in
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


def main():
    origin, destination = sys.argv[1], sys.argv[2]
    limit = int(sys.argv[3]) if len(sys.argv) > 3 else sys.maxsize
    copied = 0
    for folder, folders, files in os.walk(origin):
        folders.sort()
        relative = os.path.relpath(folder, origin)
        there = os.path.normpath(os.path.join(destination, relative))
        os.makedirs(there, exist_ok=True)
        for name in sorted(files):
            source, target = os.path.join(folder, name), os.path.join(there, name)
            if not os.path.isfile(source) or os.path.exists(target):
                continue
            copy(source, target)
            sys.stdout.write(os.path.normpath(os.path.join(relative, name)) + "\n")
            sys.stdout.flush()
            copied += 1
            if copied == limit:
                return


main()
