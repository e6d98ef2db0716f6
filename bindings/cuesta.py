"""Waiting for the disk in a Cuesta store.

In optimistic mode fsync returns at once, and the disk has everything a bounded time later. A program that must know
calls dsync:

    import cuesta

    with open("/cuesta/queue", "ab") as queue:
        queue.write(job)
        queue.flush()
        cuesta.dsync(queue)

This file is all there is to install: it needs nothing but Python's standard library.
"""

import ctypes
import errno
import fcntl
import os

__all__ = ["dsync"]

# _IO('C', 0xe6). Both doors answer it: `cuesta run`, and a mount.
_DSYNC = ord("C") << 8 | 0xE6
_OF_OTHER_FILE_SYSTEMS = (errno.ENOTTY, errno.EINVAL, errno.ENOSYS)


def dsync(file):
    """Waits until the disk has everything that had returned in the file's store before, by any process.

    `file` is any open file of the store, or its descriptor. On another file system this is syncfs, which promises the
    same there. Raises OSError: EIO if the disk did not take something.
    """
    descriptor = file if isinstance(file, int) else file.fileno()
    try:
        fcntl.ioctl(descriptor, _DSYNC)
    except OSError as error:
        if error.errno not in _OF_OTHER_FILE_SYSTEMS:
            raise
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number)) from None
