"""What works on the store of a guest whose power goes: `work` appends records and replaces a file, and says how many are
durable; `look N` says whether at least N are, whole and in order, and nothing else is. `fill` writes a file that is longer than
a small fast tier, which `look` finds whole then.
"""

import os
import sys

FOLDER = '/cuesta'
RECORD_BYTES = 700
PIECE_BYTES = 1 << 20
PIECES = 24


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


if sys.argv[1] == 'work':
    work()
elif sys.argv[1] == 'fill':
    fill()
else:
    look(int(sys.argv[2]))
