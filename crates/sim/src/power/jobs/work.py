"""What works on a store whose power goes, and looks what the last cut left: work.py ROUND KIND OPTION...

It says `found STREAM COUNT` for each stream, and `wrong: ...` if a stream is no prefix. When it is told to go on, its processes append
records, and say `STREAM SESSION NUMBER BEGAN RETURNED` for each one, with times of the monotonic clock. Options: `shared` (the two that
take turns write one file), `dsync` (a process waits for the disk now and then). Kind: the journal of SQLite, or `pessimistic`: only
that stream.
"""

import fcntl
import os
import sqlite3
import sys
import time

ROOT = os.environ['ROOT']
DSYNC = 0x43e6
SIZES = (16, 120, 700, 33, 3000, 64)
JOURNALS = ('wal', 'delete')
ROUND, KIND, OPTIONS = int(sys.argv[1]), sys.argv[2], sys.argv[3:]


def record(number):
    size = SIZES[number % len(SIZES)]
    return f'{number:9} '.encode().ljust(size - 1, b'abcdefgh'[number % 8:number % 8 + 1]) + b'\n'


def say(text):
    os.write(1, text.encode() + b'\n')


def wrong(text):
    say(f'wrong: {text}')
    os._exit(1)


def opened(name):
    return os.open(f'{ROOT}/{name}', os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o644)


def append(file, number):
    os.write(file, record(number))
    os.fsync(file)


def timed(stream, session, number, act, *arguments):
    began = time.monotonic_ns()
    act(*arguments)
    say(f'{stream} {session} {number} {began} {time.monotonic_ns()}')


def take_turns():
    """Two processes that tell each other by pipes, which no file system sees."""
    turns, others = os.pipe(), os.pipe()
    first = os.fork() != 0
    read, write = (others[0], turns[1]) if first else (turns[0], others[1])
    for end in turns + others:
        if end not in (read, write):
            os.close(end)
    file = opened(f'turns-{ROUND}-' + ('shared' if 'shared' in OPTIONS else str(int(not first))))
    number = int(not first)
    while True:
        if number > 0:
            os.read(read, 1) or os._exit(0)
        timed('turns', f'turns-{number % 2}', number, append, file, number)
        os.write(write, b'.')
        number += 2


def append_alone(stream):
    file, number = opened(f'{stream}-{ROUND}'), 0
    while True:
        timed(stream, stream, number, append, file, number)
        number += 1


def database(journal):
    database = sqlite3.connect(f'{ROOT}/{journal}.db', isolation_level=None, timeout=30)
    database.execute(f'pragma journal_mode={journal}')
    database.execute('pragma synchronous=full')
    return database


def insert(journal, number):
    rows = database(journal)
    rows.execute('create table if not exists t(number integer primary key, content blob)')
    while True:
        timed(f'sqlite-{journal}', journal, number, rows.execute, 'insert into t values(?, ?)', (number, record(number)))
        number += 1


def wait_for_the_disk():
    file, number = opened('waits'), 0
    while True:
        time.sleep(0.02 + 0.03 * (number % 5))
        timed('dsync', 'dsync', number, fcntl.ioctl, file, DSYNC)
        number += 1


def records_of(name):
    try:
        with open(f'{ROOT}/{name}', 'rb') as file:
            return file.read()
    except FileNotFoundError:
        return b''


def count_of(name, numbers):
    """How many of the records with these numbers are in a file, which has nothing else."""
    content, at, count = records_of(name), 0, 0
    for number in numbers:
        expected = record(number)
        if at == len(content):
            return count
        if content[at:at + len(expected)] != expected:
            wrong(f'{name} has no record {number} at byte {at} of {len(content)}')
        at, count = at + len(expected), count + 1


def count_rows(journal):
    if not os.path.exists(f'{ROOT}/{journal}.db'):
        return 0
    rows = sqlite3.connect(f'{ROOT}/{journal}.db', isolation_level=None, timeout=30)
    checked = rows.execute('pragma integrity_check').fetchall()
    if checked != [('ok',)]:
        wrong(f'{journal}.db: {checked}')
    if not rows.execute("select count(*) from sqlite_master where name = 't'").fetchone()[0]:
        return 0
    count = 0
    for number, content in rows.execute('select number, content from t order by number'):
        if number != count or content != record(number):
            wrong(f'{journal}.db has row {number} in place {count}')
        count += 1
    rows.close()
    return count


def look():
    """Answers how many rows there are by the round's journal."""
    last, every = ROUND - 1, range(1 << 40)
    first, second = (count_of(f'turns-{last}-{part}', every[part::2]) for part in range(2))
    if first not in (second, second + 1):
        wrong(f'{first} turns of the first, and {second} of the second')
    say(f'found turns {first + second + count_of(f"turns-{last}-shared", every)}')
    say(f'found pessimistic {count_of(f"pessimistic-{last}", every)}')
    rows = {journal: count_rows(journal) for journal in JOURNALS}
    for journal in JOURNALS:
        say(f'found sqlite-{journal} {rows[journal]}')
    say('looked')
    return rows[KIND]


def until_its_disk_fails(work, *arguments):
    try:
        work(*arguments)
    except (OSError, sqlite3.Error) as error:
        say(f'ended {time.monotonic_ns()} {work.__name__}: {error}')
    os._exit(0)


def apart(work, *arguments):
    """A process of its own does the work."""
    if os.fork() == 0:
        until_its_disk_fails(work, *arguments)


if KIND == 'pessimistic':
    until_its_disk_fails(append_alone, KIND)
count = look()
sys.stdin.readline() or os._exit(0)
for name in os.listdir(ROOT):
    if name.startswith(('turns-', 'pessimistic-')) and f'-{ROUND}' not in name:
        os.unlink(f'{ROOT}/{name}')
apart(take_turns)
apart(insert, KIND, count)
if 'dsync' in OPTIONS:
    apart(wait_for_the_disk)
while True:
    time.sleep(60)
