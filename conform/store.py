"""A store for the length of a `with`: behind one of its doors, of one user, used by one."""

import dataclasses
import os
import pwd
import shutil
import subprocess
import tempfile

ENOUGH_SECONDS = 1800
SIZE = '256M'
# Where a store appears that is not mounted there.
AT = '/cuesta'

# The doors to a store.
PRELOAD, MOUNT, BOTH = 'cuesta run', 'the mount', 'both doors'


class Failed(Exception):
    """A suite found something, or could not run."""


def run(command, **more):
    return subprocess.run([str(part) for part in command], text=True, timeout=ENOUGH_SECONDS, **more)


def must(command, **more):
    done = run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        raise Failed(f'{" ".join(str(part) for part in command)}:\n{done.stdout}')
    return done.stdout


def by_user(user, command):
    """The command as `user` runs it; None: as it is."""
    if user is None:
        return list(command)
    found = pwd.getpwnam(user)
    return ['setpriv', '--reuid', found.pw_uid, '--regid', found.pw_gid, '--clear-groups', '--', *command]


def give(path, user):
    if user is not None:
        shutil.chown(path, user, pwd.getpwnam(user).pw_gid)


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to a store: which door, whose store it is, and who uses it. None is who runs this."""

    door: str
    owner: str | None = None
    user: str | None = None

    def __str__(self):
        if self.user is None:
            return self.door
        whose = '' if self.owner == self.user else ", on root's store"
        return f'{self.door}, as {self.user}{whose}'


class Store:
    """One that is there while this is entered, below `folder`, which everybody can reach."""

    def __init__(self, cuesta, folder, way):
        self.cuesta, self.way = cuesta, way
        self.own = folder / 'own'
        self.path = self.own / 'store'
        # Sockets have short names.
        self.mounted = None if way.door == PRELOAD else tempfile.mkdtemp(prefix='cuesta-')
        self.at = self.mounted if way.door == MOUNT else AT

    def __enter__(self):
        self.remove()
        self.own.mkdir()
        give(self.own, self.way.owner)
        self.by_owner(self.cuesta, 'mkfs', self.path, '--medium', 'memory', '--nvm', SIZE)
        if self.mounted:
            self.by_owner(self.cuesta, 'mount', '--allow-other', self.path, self.mounted)
        if self.way.user != self.way.owner:
            self.path.chmod(0o711)
            # One that answers others is its owner's.
            self.by_owner(*self.inside('true'))
        return self

    def __exit__(self, *_):
        self.remove()
        if self.mounted:
            os.rmdir(self.mounted)

    def by_owner(self, *command):
        return must(by_user(self.way.owner, command))

    def inside(self, *command):
        if self.way.door == MOUNT:
            return list(command)
        return [self.cuesta, 'run', '--store', self.path, '--at', self.at, '--', *command]

    def command(self, *command):
        """A command behind the door, as the user."""
        return by_user(self.way.user, self.inside(*command))

    def folder(self, name):
        """Makes a folder in the store that is the user's."""
        path = f'{self.at}/{name}'
        self.by_owner(*self.inside('mkdir', '-m', '755', path))
        if self.way.user != self.way.owner:
            self.by_owner(*self.inside('chown', f'{self.way.user}:', path))
        return path

    def check(self):
        """What is stored holds together."""
        if self.mounted:
            self.by_owner(self.cuesta, 'unmount', self.mounted)
        self.by_owner(self.cuesta, 'stop', self.path)
        self.by_owner(self.cuesta, 'fsck', self.path)

    def remove(self):
        if self.mounted and os.path.ismount(self.mounted):
            run(by_user(self.way.owner, [self.cuesta, 'unmount', '--lazy', self.mounted]))
        if not self.own.exists():
            return
        if self.path.exists():
            run(by_user(self.way.owner, [self.cuesta, 'stop', self.path]),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            nvm = self.path / 'nvm'
            if nvm.is_symlink():
                shutil.rmtree(nvm.resolve(), ignore_errors=True)
        shutil.rmtree(self.own)
