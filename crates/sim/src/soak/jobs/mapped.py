"""A database of LMDB's, which its processes share by mappings: a transaction is a step. Old keys are removed."""

import hashlib
import os
import random
import sys

import lmdb

PLACE, SEED, STOP = (os.environ[name] for name in ("PLACE", "SEED", "STOP"))
MAP_BYTES = 8 << 20
VALUE_BYTES_MAX = 3000
KEYS_KEPT = 400
RETIRE_EVERY = 50


def opened():
    environment = lmdb.open(PLACE, map_size=MAP_BYTES, mode=0o600)
    # What killed processes left.
    environment.reader_check()
    return environment


def last_of(transaction):
    cursor = transaction.cursor()
    return int(cursor.key()) if cursor.last() else 0


def work():
    environment = opened()
    with environment.begin() as transaction:
        print("resume", last_of(transaction), flush=True)
    chance = random.Random()
    while not os.path.exists(STOP):
        value = chance.randbytes(chance.randrange(VALUE_BYTES_MAX))
        with environment.begin(write=True) as transaction:
            step = last_of(transaction) + 1
            transaction.put(b"%020d" % step, value)
        print("kept", step, hashlib.sha256(value).hexdigest(), flush=True)
        if step % RETIRE_EVERY == 0 and step > KEYS_KEPT:
            retire(environment, step - KEYS_KEPT)


def retire(environment, last):
    print("leaves", last, flush=True)
    with environment.begin(write=True) as transaction:
        cursor = transaction.cursor()
        while cursor.first() and int(cursor.key()) <= last:
            cursor.delete()
    print("gone", last, flush=True)


def look():
    if not os.path.exists(os.path.join(PLACE, "data.mdb")):
        return
    with opened().begin() as transaction:
        for key, value in transaction.cursor():
            print("found", int(key), hashlib.sha256(value).hexdigest())


{"work": work, "look": look}[sys.argv[1]]()
