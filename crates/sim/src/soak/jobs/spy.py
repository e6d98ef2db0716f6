"""A user whom a directory and its files are none of, and who tries them all the same. What works is said."""

import errno
import os
import sys
import time

PLACE, STOP = os.environ["PLACE"], os.environ["STOP"]
LOGS = 8
PAUSE_SECONDS = 0.01


def tries(path):
    yield "opened for reading", lambda: os.open(path, os.O_RDONLY)
    yield "opened for writing", lambda: os.open(path, os.O_WRONLY)
    yield "cut", lambda: os.truncate(path, 0)
    yield "given another mode", lambda: os.chmod(path, 0o666)
    yield "renamed", lambda: os.rename(path, path + "-taken")
    yield "removed", lambda: os.unlink(path)
    yield "made", lambda: os.open(path + "-new", os.O_CREAT | os.O_WRONLY)


def spy():
    for name in ["head"] + [f"log-{log}" for log in range(LOGS)]:
        path = os.path.join(PLACE, name)
        for what, attempt in tries(path):
            try:
                attempt()
                print("saw", f"{path} {what} by a user who may not", flush=True)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.ENOENT):
                    raise


def work():
    while not os.path.exists(STOP):
        spy()
        time.sleep(PAUSE_SECONDS)


{"work": work, "look": spy}[sys.argv[1]]()
