"""Logs that records of all sizes are appended to, one write call and an fsync each: that is a step. Nobody else may read
them. After each, the head says which was the last; so it never names one that is not there. Old logs are removed.
"""

import hashlib
import os
import random
import struct
import sys

PLACE, SEED, STOP = (os.environ[name] for name in ("PLACE", "SEED", "STOP"))
HEAD = struct.Struct("<QI32s")
RECORDS_PER_LOG = 100
LOGS = 8
LOGS_KEPT = 4
LENGTHS = (1, 20, 300, 4096, 5000, 16_000, 70_000, 400_000)
MODE = 0o600


def path(name):
    return os.path.join(PLACE, name)


def log_of(step):
    return path(f"log-{step // RECORDS_PER_LOG % LOGS}")


def record(step):
    chance = random.Random(f"{SEED}/{step}")
    payload = chance.randbytes(chance.choice(LENGTHS))
    return HEAD.pack(step, len(payload), hashlib.sha256(payload).digest()) + payload


def records():
    """Numbers and checksums of all there are; it ends if one is not whole."""
    for log in range(LOGS):
        if not os.path.exists(path(f"log-{log}")):
            continue
        with open(path(f"log-{log}"), "rb") as file:
            content = file.read()
        at = 0
        while at < len(content):
            step, length, digest = HEAD.unpack_from(content.ljust(at + HEAD.size, b"\0"), at)
            payload = content[at + HEAD.size : at + HEAD.size + length]
            if len(payload) != length or hashlib.sha256(payload).digest() != digest:
                sys.exit(f"log-{log}: the record at byte {at}, number {step}, is torn: {len(payload)} of {length} bytes")
            yield step, digest.hex()
            at += HEAD.size + length


def head():
    with open(path("head"), "rb") as file:
        content = file.read()
    if len(content) not in (0, 8):
        sys.exit(f"head has {len(content)} bytes")
    return int.from_bytes(content, "little")


def work():
    last = max((step for step, _ in records()), default=0)
    print("resume", last, flush=True)
    retire(last)
    marks = os.open(path("head"), os.O_CREAT | os.O_WRONLY, MODE)
    while not os.path.exists(STOP):
        step = last + 1
        content = record(step)
        log = os.open(log_of(step), os.O_CREAT | os.O_WRONLY | os.O_APPEND, MODE)
        if os.write(log, content) != len(content):
            sys.exit("a short write")
        os.fsync(log)
        os.close(log)
        os.pwrite(marks, step.to_bytes(8, "little"), 0)
        print("kept", step, content[12:44].hex(), flush=True)
        last = step
        if (step + 1) % RECORDS_PER_LOG == 0:
            retire(step)


def retire(step):
    """All logs so far behind the one of this step that their names are wanted soon."""
    last = (step // RECORDS_PER_LOG - LOGS_KEPT + 1) * RECORDS_PER_LOG - 1
    if last < 0:
        return
    print("leaves", last, flush=True)
    for behind in range(LOGS_KEPT, LOGS):
        if os.path.exists(log_of(step - behind * RECORDS_PER_LOG)):
            os.unlink(log_of(step - behind * RECORDS_PER_LOG))
    print("gone", last, flush=True)


def look():
    if not os.path.exists(path("head")):
        return
    found = list(records())
    last = max((step for step, _ in found), default=0)
    if head() > last:
        sys.exit(f"record {head()} was written before the head that names it, but record {last} is the last there")
    for step, digest in found:
        print("found", step, digest)


{"work": work, "look": look}[sys.argv[1]]()
