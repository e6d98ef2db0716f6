#!/usr/bin/env python3
"""Runs the file-system tests of a built LTP in a folder, one after the other, and compares two such runs.

  ltp.py run LTP FOLDER RESULTS     each test of runtest/syscalls and runtest/fs that is built, in FOLDER; RESULTS gets
                                    a line for each (name, exit status or `timeout`), and a run that was broken off goes on
  ltp.py compare RESULTS RESULTS    names whose outcome differs

LTP is the folder of its sources, with `lib`, `libs`, `testcases/lib`, `testcases/kernel/syscalls` and `testcases/kernel/fs` made.
Exit statuses of LTP: 0 passed, 1 failed, 2 broken, 4 warned, 32 not applicable.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

SECONDS_MAX = 200
# They say nothing about the file system they run in.
SKIPPED = ("inotify", "fanotify", "quotactl", "mount", "umount", "fsopen", "fsconfig", "statmount", "listmount", "ioctl_",
           "proc01", "read_all_", "quota_remount", "isofs", "squashfs", "binfmt_misc")


def tests(ltp):
    for name in ("syscalls", "fs"):
        for line in (ltp / "runtest" / name).read_text().splitlines():
            words = line.split(None, 1)
            if len(words) == 2 and not line.startswith("#") and not words[0].startswith(SKIPPED):
                yield words


def outcome(command, folder, environment):
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    environment = dict(environment, TMPDIR=str(folder), TMP=str(folder))
    process = subprocess.Popen(["sh", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        return str(process.wait(SECONDS_MAX))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "timeout"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(ltp, place, results):
    built = {path.name: path.parent for path in (ltp / "testcases").rglob("*") if os.access(path, os.X_OK) and path.is_file()}
    path = os.pathsep.join(sorted({str(parent) for parent in built.values()}) + [os.environ["PATH"]])
    environment = dict(os.environ, PATH=path, LTPROOT=str(ltp), LTP_COLORIZE_OUTPUT="n", LTP_TIMEOUT_MUL="2")
    done = read(results) if results.exists() else {}
    for tag, command in tests(ltp):
        # A command can be a list for the shell, whose last part is the test.
        if tag in done or command.split(";")[-1].split()[0] not in built:
            continue
        found = outcome(command, place / f"ltp-{tag}", environment)
        with results.open("a") as out:
            out.write(f"{tag} {found}\n")


def read(results):
    return dict(line.split() for line in results.read_text().splitlines())


def compare(one, other):
    one, other = read(one), read(other)
    for tag in sorted(one.keys() & other.keys()):
        if one[tag] != other[tag]:
            print(f"{tag}: {one[tag]}, {other[tag]}")
    print(f"{len(one.keys() & other.keys())} tests compared")


def main():
    match sys.argv[1:]:
        case ["run", ltp, place, results]:
            run(Path(ltp).resolve(), Path(place).resolve(), Path(results))
        case ["compare", one, other]:
            compare(Path(one), Path(other))
        case _:
            sys.exit(__doc__)


main()
