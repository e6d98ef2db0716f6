"""The real data of the demo: this machine's package index as rows, and python's own library as a tree."""

import os
import subprocess
import sysconfig

ROWS_MAX = 60_000
FIELDS = ("Package", "Version", "Section", "Installed-Size", "SHA256", "Description")


def package_index():
    """The text of the best package index this machine has, and what it is called."""
    try:
        index = subprocess.run(
            ["apt-cache", "dumpavail"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ).stdout
        if index.count(b"\nPackage:") > 5000:
            return index.decode(errors="replace"), "apt-cache dumpavail"
    except (OSError, subprocess.CalledProcessError):
        pass
    status = "/var/lib/dpkg/status"
    if os.path.exists(status):
        with open(status, errors="replace") as file:
            return file.read(), status
    return None, None


def rows():
    """Rows of six texts each, and where they come from."""
    index, origin = package_index()
    if index is None:
        tree, files = library()
        return [(path, tree, "library", "0", "", "file " + path) for path in files], tree
    found = []
    for paragraph in index.split("\n\n"):
        fields = {}
        for line in paragraph.split("\n"):
            if line[:1].isspace() and "Description" in fields:
                fields["Description"] += "\n" + line.strip()
            elif ": " in line:
                name, value = line.split(": ", 1)
                fields[name] = value
        if "Package" in fields:
            found.append(tuple(fields.get(name, "") for name in FIELDS))
        if len(found) == ROWS_MAX:
            break
    # A small index is imported several times over, so that a kill always hits the middle.
    short = len(found)
    while len(found) < ROWS_MAX // 2:
        found.extend(found[:short])
    return found, origin


def library():
    """Python's own library: its path, and the relative paths of its files in the order they are copied."""
    tree = os.path.realpath(sysconfig.get_path("stdlib"))
    files = []
    for folder, folders, names in os.walk(tree):
        folders.sort()
        relative = os.path.relpath(folder, tree)
        for name in sorted(names):
            if os.path.isfile(os.path.join(folder, name)):
                files.append(os.path.normpath(os.path.join(relative, name)))
    return tree, files


def quoted(text):
    """An SQL literal. The sqlite3 program ends its input line at a NUL, which no index holds."""
    return "'" + text.replace("'", "''").replace("\0", "") + "'"


CREATE = (
    "CREATE TABLE IF NOT EXISTS packages("
    "id INTEGER PRIMARY KEY, name TEXT, version TEXT, section TEXT, size TEXT, sha256 TEXT, description TEXT);"
)


def import_script(path, journal, numbered_rows, acknowledge):
    """Writes what sqlite3 is fed: one transaction a row, and after each, if asked for, its number."""
    with open(path, "w") as script:
        print(f"PRAGMA journal_mode={journal}; PRAGMA synchronous=FULL;", file=script)
        print(CREATE, file=script)
        print("SELECT 'start ' || ((julianday('now') - 2440587.5) * 86400.0);", file=script)
        for number, row in numbered_rows:
            values = ",".join(quoted(text) for text in row)
            print(f"INSERT INTO packages VALUES({number},{values});", file=script)
            if acknowledge:
                print(f"SELECT 'row {number}';", file=script)
        print("SELECT 'end ' || ((julianday('now') - 2440587.5) * 86400.0);", file=script)
