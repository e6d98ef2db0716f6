"""The main job on real input, before your eyes.

1. sqlite3 and python3, unmodified, work on a Cuesta store; all of them and the daemon are killed with SIGKILL in
   the middle; the store recovers, and a manifest kept outside proves that nothing acknowledged was lost. Each
   program once, then all at the same time, going on where they were killed. A round counts only if each program had
   something acknowledged in it.
2. The same programs run side by side, like with like: a store in memory beside tmpfs and beside the disk under
   eatmydata, which all lose what the power takes; a store on the disk beside the disk itself, which keep it.

Where /dev/shm is too small for a store in memory (a container's has 64 MiB), the store of part 1 lies on the disk, and
part 2 measures the disk alone.

Usage: demo.py CUESTA_COMMAND WORK_DIRECTORY [SEED]. The exit status is not 0 if anything was lost.
"""

import hashlib
import json
import os
import pty
import random
import select
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import tty

import source

JOURNALS = ("DELETE", "PERSIST")
ROUNDS = (("DELETE",), ("PERSIST",), ("tree",), ("DELETE", "PERSIST", "tree"))
# How long programs work between their first acknowledgements and the kill.
ROUND_SECONDS = (0.6, 1.2)
# So many lines each program has acknowledged in a round before it is killed, or the demo fails.
ACKNOWLEDGED_MIN = 10
ACKNOWLEDGED_SECONDS_MAX = 120
TURNS = 3
MEMORY_ROWS, DISK_ROWS = 8_000, 300
MEMORY_FILES, DISK_FILES = 1_000, 100
STORE_BYTES = 1 << 30
# A store in memory of that size with its logs, and what the comparison writes beside it.
SHARED_MEMORY = "/dev/shm"
SHARED_MEMORY_BYTES_MIN = 2 * STORE_BYTES
# The tree is copied so many times over that no machine finishes before it is killed.
COPIES = 40
# What SQLite says of its journal acknowledges nothing.
JOURNAL_LINES = tuple(journal.lower() for journal in JOURNALS)
HERE = os.path.dirname(os.path.abspath(__file__))
COPY = os.path.join(HERE, "copy_tree.py")


def say(text=""):
    print(text, flush=True)


def progress(text):
    """A line that the next one replaces; an empty text clears it."""
    if sys.stdout.isatty():
        print("\r" + ("  " + text).ljust(78) + "\r", end="", flush=True)


def fail(text):
    say(f"\nFAILED: {text}\nStore and manifest are kept in {os.path.abspath(sys.argv[2])}")
    sys.exit(1)


class Place:
    """A directory that programs work in, and what is put before a command so that it does."""

    def __init__(self, name, folder, prefix=()):
        self.name, self.folder, self.prefix = name, folder, list(prefix)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def run(self, command, **options):
        return subprocess.run(self.prefix + command, stdout=subprocess.PIPE, text=True, **options)


class Store(Place):
    """A store of Cuesta's, made new, and the programs that run on it."""

    def __init__(self, cuesta, folder, medium):
        super().__init__(f"Cuesta ({medium})", "/cuesta", [cuesta, "run", "--store", folder, "--"])
        self.cuesta, self.store, self.medium = cuesta, folder, medium
        self.remove()
        done = subprocess.run(
            [cuesta, "mkfs", folder, "--medium", medium, "--nvm", str(STORE_BYTES)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode != 0:
            fail(done.stderr.strip())

    def remove(self):
        if os.path.lexists(self.store):
            tier = os.path.realpath(os.path.join(self.store, "nvm"))
            subprocess.run([self.cuesta, "stop", self.store], stdout=subprocess.DEVNULL)
            shutil.rmtree(tier, ignore_errors=True)
            shutil.rmtree(self.store, ignore_errors=True)


class Job:
    """A program at work on the store, and the lines it acknowledges, collected outside."""

    def __init__(self, command, script=None):
        self.lines = []
        # On a terminal programs print each line at once; nothing in them has to be changed for that.
        reader, writer = pty.openpty()
        tty.setraw(writer)
        with open(script or os.devnull) as given:
            self.process = subprocess.Popen(command, stdin=given, stdout=writer)
        os.close(writer)
        self.reader = threading.Thread(target=self.collect, args=(reader,))
        self.reader.start()

    def collect(self, reader):
        rest = b""
        while True:
            try:
                read = os.read(reader, 1 << 16)
            except OSError:  # how a terminal ends
                read = b""
            if not read:
                break
            *lines, rest = (rest + read).split(b"\n")
            self.lines.extend(line.decode() for line in lines)
        os.close(reader)

    def acknowledged(self):
        """How many lines acknowledge something."""
        return sum(not line.startswith(("start ", "end ")) and line not in JOURNAL_LINES for line in list(self.lines))

    def end(self):
        self.process.wait()
        self.reader.join()


class Demo:
    def __init__(self, cuesta, work, seed):
        self.cuesta, self.work = cuesta, work
        self.random = random.Random(seed)
        self.rows, self.origin = source.rows()
        self.tree, self.files = source.library()
        self.acknowledged_rows = {journal: 0 for journal in JOURNALS}
        self.acknowledged_files = set()
        self.sums = {}

    def command(self, *arguments, ok=(0,)):
        done = subprocess.run([self.cuesta, *arguments], stdout=subprocess.PIPE, text=True)
        if done.returncode not in ok:
            fail(f"cuesta {arguments[0]} ended with {done.returncode}: {done.stdout.strip()}")
        return done.stdout

    def make_store(self):
        """The store whose programs are killed. It lies in memory where there is room."""
        medium = "memory" if self.has_memory() else "block"
        self.on_store = Store(self.cuesta, os.path.join(self.work, "store"), medium)
        self.store = self.on_store.store
        # Directories of their own: programs that do not share one do not wait for each other.
        folders = [self.on_store.path(name) for name in (*JOURNALS, "tree")]
        if self.on_store.run(["mkdir", *folders]).returncode != 0:
            fail("no directory can be made on the store")

    def has_memory(self):
        return free_bytes(SHARED_MEMORY) >= SHARED_MEMORY_BYTES_MIN

    # -- killing and recovering

    def start_job(self, name):
        if name == "tree":
            return Job(self.on_store.prefix + [sys.executable, COPY, self.tree, self.on_store.path("tree"), str(COPIES)])
        # The row after the last acknowledged one may or may not be there: both are right.
        first = len(self.stored_rows(name))
        numbered = list(enumerate(self.rows, 1))[first:]
        script = os.path.join(self.work, f"{name}.sql")
        source.import_script(script, name, numbered, acknowledge=True)
        database = self.on_store.path(name, "packages.db")
        return Job(self.on_store.prefix + ["sqlite3", "-batch", "-bail", database], script)

    def kill_in_the_middle(self, number, names):
        jobs = {name: self.start_job(name) for name in names}
        began = time.monotonic()
        seconds = self.random.uniform(*ROUND_SECONDS)
        acknowledged = None
        while acknowledged is None or time.monotonic() - acknowledged < seconds:
            counts = {name: job.acknowledged() for name, job in jobs.items()}
            progress(f"round {number}: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
            if acknowledged is None and min(counts.values()) >= ACKNOWLEDGED_MIN:
                acknowledged = time.monotonic()
            if any(job.process.poll() is not None for job in jobs.values()):
                break
            if acknowledged is None and time.monotonic() - began > ACKNOWLEDGED_SECONDS_MAX:
                break
            select.select([], [], [], 0.05)
        daemon = json.loads(self.command("status", "--json", self.store))["pid"]
        programs = [job.process.pid for job in jobs.values() if job.process.returncode is None]
        self.random.shuffle(programs)
        # A daemon that outlives its programs digests their logs; one that dies first leaves that to recovery.
        victims = [daemon, *programs] if number % 2 else [*programs, daemon]
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        for job in jobs.values():
            job.end()
        failed = [name for name, job in jobs.items() if job.process.returncode not in (0, -signal.SIGKILL)]
        if failed:
            fail(f"{', '.join(failed)} failed before it was killed")
        idle = [name for name, job in jobs.items() if job.acknowledged() < ACKNOWLEDGED_MIN]
        if idle:
            fail(f"{', '.join(idle)} had next to nothing acknowledged when it was killed: the round would prove nothing")
        for name, job in jobs.items():
            if name == "tree":
                self.acknowledged_files.update(job.lines)
            else:
                numbers = [int(line[4:]) for line in job.lines if line.startswith("row ")]
                self.acknowledged_rows[name] = max([self.acknowledged_rows[name], *numbers])
        # The manifest, outside the store: what the programs were told is safe.
        with open(os.path.join(self.work, "manifest.json"), "w") as manifest:
            json.dump({"rows": self.acknowledged_rows, "files": sorted(self.acknowledged_files)}, manifest)

    def stored_rows(self, journal):
        database = self.on_store.path(journal, "packages.db")
        columns = "id, name, version, section, size, sha256, description"
        query = f"{source.CREATE} SELECT json_array({columns}) FROM packages ORDER BY id;"
        done = self.on_store.run(["sqlite3", "-batch", "-bail", database, query])
        if done.returncode != 0:
            fail(f"{database} cannot be read after the kill")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def verify(self, number, names):
        for journal in JOURNALS:
            progress(f"round {number}: checking every row of {journal}/packages.db")
            stored = self.stored_rows(journal)
            for at, row in enumerate(stored):
                if row != [at + 1, *(text.replace("\0", "") for text in self.rows[at])]:
                    fail(f"{journal}/packages.db: row {at + 1} is not what was imported")
            if len(stored) < self.acknowledged_rows[journal]:
                fail(f"{journal}/packages.db: {self.acknowledged_rows[journal]} rows were acknowledged, {len(stored)} are there")
            database = self.on_store.path(journal, "packages.db")
            checked = self.on_store.run(["sqlite3", "-batch", database, "PRAGMA integrity_check"]).stdout.strip()
            if checked != "ok":
                fail(f"{journal}/packages.db: integrity_check says {checked}")
        progress(f"round {number}: checking every copied file")
        target = self.on_store.path("tree")
        listed = self.on_store.run(["find", target, "-type", "f", "-exec", "sha256sum", "{}", "+"])
        if listed.returncode != 0:
            fail("the copied tree cannot be read after the kill")
        sums = {line[66:]: line[:64] for line in listed.stdout.splitlines()}
        for name in self.acknowledged_files:
            original = name.split("/", 1)[1]
            if original not in self.sums:
                with open(os.path.join(self.tree, original), "rb") as file:
                    self.sums[original] = hashlib.sha256(file.read()).hexdigest()
            # sha256sum marks names with special characters by a backslash; python's library has none.
            if sums.get(os.path.join(target, name)) != self.sums[original]:
                fail(f"{name} was acknowledged, but its copy is {'wrong' if name in sums else 'missing'}")
        status = json.loads(self.command("status", "--json", self.store))
        self.command("stop", self.store)
        report = json.loads(self.command("fsck", "--json", self.store))
        progress("")
        rows = " + ".join(f"{self.acknowledged_rows[journal]:,}" for journal in JOURNALS)
        say(
            f"  {number}. {' + '.join(names)} killed: recovered {status['recovered_entries']:,} log entries in "
            f"{status['recovery_ms']} ms;\n"
            f"     all {rows} rows and {len(self.acknowledged_files):,} files acknowledged so far are there; "
            f"integrity_check ok, fsck {report['outcome']}"
        )

    # -- side by side

    def commits_per_second(self, place, journal, turn, count):
        script = os.path.join(self.work, "speed.sql")
        source.import_script(script, journal, list(enumerate(self.rows, 1))[:count], acknowledge=False)
        with open(script) as given:
            done = place.run(["sqlite3", "-batch", "-bail", place.path(f"{journal}-{turn}.db")], stdin=given)
        if done.returncode != 0:
            fail(f"the import on {place.name} failed")
        times = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
        return count / (float(times["end"]) - float(times["start"]))

    def files_per_second(self, place, turn, count):
        began = time.monotonic()
        target = place.path(f"tree-{turn}")
        done = place.run([sys.executable, COPY, self.tree, target, str(COPIES), str(count)])
        if done.returncode != 0:
            fail(f"the copy on {place.name} failed")
        return len(done.stdout.splitlines()) / (time.monotonic() - began)

    def compare(self):
        disk = os.path.join(self.work, "disk")
        os.makedirs(disk, exist_ok=True)
        kind = file_system(disk)
        if self.has_memory():
            tmpfs = f"{SHARED_MEMORY}/cuesta-demo-{os.getpid()}"
            os.makedirs(tmpfs)
            try:
                peers = [Place("tmpfs", tmpfs)]
                if shutil.which("eatmydata"):
                    peers.append(Place(f"{kind}, eatmydata", disk, ["eatmydata"]))
                self.compare_with("In memory, where the power takes all", self.on_store, peers, MEMORY_ROWS, MEMORY_FILES)
            finally:
                shutil.rmtree(tmpfs)
        else:
            say(f"  In memory: not compared, as {SHARED_MEMORY} has room for {free_bytes(SHARED_MEMORY) >> 20} MiB only")
            say("  (a container gets more by docker run --shm-size=4g).")
        on_disk = Store(self.cuesta, os.path.join(self.work, "store-on-disk"), "block")
        self.compare_with("On the disk, where fsync means that the power takes nothing", on_disk, [Place(kind, disk)], DISK_ROWS, DISK_FILES)
        on_disk.remove()

    def compare_with(self, title, store, peers, rows, files):
        """A table of `store` beside `peers`, in turns. What a turn wrote goes before the next one."""
        places = [store, *peers]
        rates = {}
        for turn in range(TURNS):
            for place in places:
                progress(f"turn {turn + 1} of {TURNS}: {place.name}")
                for journal in JOURNALS:
                    rate = self.commits_per_second(place, journal, turn, rows)
                    rates.setdefault((f"SQLite {journal}, commits/s", place.name), []).append(rate)
                rate = self.files_per_second(place, turn, files)
                rates.setdefault(("files copied with fsync/s", place.name), []).append(rate)
                made = [place.path(f"{journal}-{turn}.db") for journal in JOURNALS] + [place.path(f"tree-{turn}")]
                place.run(["rm", "-rf", *made])
        progress("")
        say(f"  {title}:")
        columns = "".join(f"{place.name:>17}" for place in places)
        say(" " * 30 + columns + "".join(f"{'vs ' + place.name:>20}" for place in peers))
        for work in dict.fromkeys(work for work, _ in rates):
            ours, *theirs = (statistics.median(rates[work, place.name]) for place in places)
            cells = "".join(f"{rate:>17,.0f}" for rate in (ours, *theirs))
            say(f"  {work:<28}{cells}" + "".join(f"{ours / rate:>19.2f}×" for rate in theirs))

    def run(self):
        began = time.monotonic()
        say(f"Data: {len(self.rows):,} packages from {self.origin}; {len(self.files):,} files of {self.tree}")
        self.make_store()
        where = "in memory" if self.on_store.medium == "memory" else f"on the disk, as {SHARED_MEMORY} is too small"
        say(
            "\nSQLite imports in two journal modes (synchronous=FULL, a commit a row) and a copy of the tree (fsync a\n"
            f"file), unmodified programs on one store ({where}); in the middle of each, SIGKILL for them\n"
            "and the daemon:"
        )
        for number, names in enumerate(ROUNDS, 1):
            self.kill_in_the_middle(number, names)
            self.verify(number, names)
        say("\nThe same programs side by side (medians of three; make bench measures more and better):")
        self.compare()
        self.on_store.remove()
        say(f"\nNothing that was acknowledged was lost. ({time.monotonic() - began:.0f} s)")


def free_bytes(folder):
    """What can be written there; nothing where there is no such folder."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def file_system(folder):
    found = subprocess.run(["stat", "-f", "-c", "%T", folder], stdout=subprocess.PIPE, text=True).stdout.strip()
    return "ext4" if found == "ext2/ext3" else found


def main():
    cuesta, work = (os.path.abspath(path) for path in sys.argv[1:3])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 32)
    say(f"seed {seed}")
    os.makedirs(work, exist_ok=True)
    Demo(cuesta, work, seed).run()
    shutil.rmtree(work)


main()
