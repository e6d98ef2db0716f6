"""What works on the store of a guest whose power goes: `work` appends records and replaces a file, and says how many are
durable; `look N` says whether at least N are, whole and in order, and nothing else is. `fill` writes a file that is longer than
a small fast tier, which `look` finds whole then. In optimistic mode `go_on` appends records beside SQLite, and says when each call
began and returned (optimistic.py); `find` says how many records there are, whole and in order.
"""

import fcntl
import os
import sqlite3
import sys
import termios
import time

FOLDER = '/cuesta'
RECORD_BYTES = 700
PIECE_BYTES = 1 << 20
PIECES = 24
DSYNC = 0x43e6


def record(number):
    return f'{number:8} '.encode().ljust(RECORD_BYTES - 1, b'abcdefgh'[number % 8:number % 8 + 1]) + b'\n'


def read(name):
    try:
        with open(f'{FOLDER}/{name}', 'rb') as file:
            return file.read()
    except FileNotFoundError:
        return b''


def piece(number):
    return record(number) * (PIECE_BYTES // RECORD_BYTES)


def look_at_large():
    if not os.path.exists(f'{FOLDER}/large'):
        return
    with open(f'{FOLDER}/large', 'rb') as file:
        for number in range(PIECES):
            if file.read(len(piece(number))) != piece(number):
                sys.exit(print(f'wrong: piece {number} of what is on both tiers'))


def fill():
    with open(f'{FOLDER}/large', 'wb') as file:
        for number in range(PIECES):
            file.write(piece(number))
    look_at_large()


def look(least):
    look_at_large()
    log = read('log')
    count = len(log) // RECORD_BYTES
    if log != b''.join(map(record, range(count))):
        sys.exit(print('wrong: the log is not what was written'))
    last = read('last')
    if count < least or len(last) != (RECORD_BYTES if least else len(last)):
        sys.exit(print(f'wrong: {count} records of {least}, {len(last)} bytes in place of the last'))
    if last and not least - 1 <= int(last.split()[0]) < max(count, 1):
        sys.exit(print(f'wrong: the last is {int(last.split()[0])}, of {least} to {count}'))
    print('all there', flush=True)


def work():
    count = len(read('log')) // RECORD_BYTES
    folder = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY)
    log = os.open(f'{FOLDER}/log', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    while True:
        os.write(log, record(count))
        os.fsync(log)
        with open(f'{FOLDER}/new', 'wb') as file:
            file.write(record(count))
            file.flush()
            os.fsync(file.fileno())
        os.rename(f'{FOLDER}/new', f'{FOLDER}/last')
        os.fsync(folder)
        count += 1
        print('acknowledged', count, flush=True)


def timed(stream, number, act, *arguments):
    began_ns = time.monotonic_ns()
    act(*arguments)
    returned_ns = time.monotonic_ns()
    # A line that is whole ends with its unit.
    os.write(1, f'{stream} {number} {began_ns / 1e6:.3f} {returned_ns / 1e6:.3f} ms\n'.encode())
    # The host has heard of all but the last. The terminal would keep 4 KiB of lines to itself.
    termios.tcdrain(1)


def append(log, number):
    os.write(log, record(number))
    os.fsync(log)


def database():
    rows = sqlite3.connect(f'{FOLDER}/db', isolation_level=None, timeout=60)
    rows.execute('pragma synchronous=full')
    rows.execute('create table if not exists t(number integer primary key, content blob)')
    return rows


def count_rows(rows):
    return rows.execute('select count(*) from t').fetchone()[0]


def go_on():
    if os.fork() == 0:
        rows = database()
        number = count_rows(rows)
        while True:
            timed('sqlite', number, rows.execute, 'insert into t values(?, ?)', (number, record(number)))
            number += 1
    number = len(read('log')) // RECORD_BYTES
    log = os.open(f'{FOLDER}/log', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    while True:
        timed('log', number, append, log, number)
        number += 1
        if number % 151 == 0:
            timed('dsync', number, fcntl.ioctl, log, DSYNC)


def find():
    log = read('log')
    count = len(log) // RECORD_BYTES
    if log != b''.join(map(record, range(count))):
        sys.exit(print('wrong: the log is not what was written'))
    rows = database()
    checked = rows.execute('pragma integrity_check').fetchone()
    if checked != ('ok',):
        sys.exit(print(f'wrong: the database is not whole: {checked}'))
    found = rows.execute('select number, content from t order by number').fetchall()
    if found != [(number, record(number)) for number in range(len(found))]:
        sys.exit(print('wrong: the rows are not those that were written'))
    rows.close()
    print(f'found log {count}\nfound sqlite {len(found)}\nfound all', flush=True)


if sys.argv[1] == 'look':
    look(int(sys.argv[2]))
else:
    for action in sys.argv[1:]:
        {'work': work, 'fill': fill, 'go_on': go_on, 'find': find}[action]()
