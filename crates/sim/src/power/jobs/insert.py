"""Inserts rows into a table of PostgreSQL by psql, and says when each commit began and returned: insert.py COUNT PSQL..."""

import os
import subprocess
import sys
import time

number = int(sys.argv[1])
psql = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL, text=True, bufsize=1)
while True:
    began = time.monotonic_ns()
    psql.stdin.write(f"insert into t values ({number}, repeat('x', {number % 7 * 100}));\n\\echo {number}\n")
    psql.stdin.flush()
    if psql.stdout.readline().strip() != str(number):
        sys.exit()
    os.write(1, f'postgres postgres {number} {began} {time.monotonic_ns()}\n'.encode())
    number += 1
