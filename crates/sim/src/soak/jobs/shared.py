"""A counter under locks, and notes in one directory, which processes of several users share: counting one further and
leaving a note of that number is a step. Two that count to the same number both acknowledge it, and that shows.
"""

import fcntl
import hashlib
import os
import sys

PLACE, STOP = os.environ["PLACE"], os.environ["STOP"]
NOTES_KEPT = 200
RETIRE_EVERY = 50


def path(name):
    return os.path.join(PLACE, name)


def count_in(counter):
    return int(os.pread(counter, 20, 0) or 0)


def notes():
    return sorted(int(name[5:]) for name in os.listdir(PLACE) if name.startswith("note-"))


def work():
    counter = os.open(path("counter"), os.O_CREAT | os.O_RDWR)
    print("resume", count_in(counter), flush=True)
    while not os.path.exists(STOP):
        fcntl.flock(counter, fcntl.LOCK_EX)
        fcntl.lockf(counter, fcntl.LOCK_EX)
        step = count_in(counter) + 1
        os.pwrite(counter, b"%020d" % step, 0)
        content = os.urandom(16) * (1 + step % 500)
        note = os.open(path(f"note-{step}"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.write(note, content)
        os.fsync(note)
        os.close(note)
        print("kept", step, hashlib.sha256(content).hexdigest(), flush=True)
        if step % RETIRE_EVERY == 0 and step > NOTES_KEPT:
            retire(step - NOTES_KEPT)
        fcntl.lockf(counter, fcntl.LOCK_UN)
        fcntl.flock(counter, fcntl.LOCK_UN)


def retire(last):
    print("leaves", last, flush=True)
    for old in notes():
        if old <= last:
            os.unlink(path(f"note-{old}"))
    print("gone", last, flush=True)


def look():
    if not os.path.exists(path("counter")):
        return
    found = notes()
    counter = os.open(path("counter"), os.O_RDONLY)
    if found and found[-1] > count_in(counter):
        sys.exit(f"the counter says {count_in(counter)}, but note {found[-1]} was written after it said more")
    for step in found:
        with open(path(f"note-{step}"), "rb") as note:
            print("found", step, hashlib.sha256(note.read()).hexdigest())


os.umask(0)
{"work": work, "look": look}[sys.argv[1]]()
