/* Waiting for the disk in a Cuesta store: one call, no library to link.
 *
 *     int file = open("/cuesta/queue", O_RDWR);
 *     ...
 *     if (cuesta_dsync(file) != 0)
 *         err(1, "dsync");
 *
 * In optimistic mode fsync returns at once, and the disk has everything a bounded time later. A program that must
 * know calls cuesta_dsync.
 */
#ifndef CUESTA_H
#define CUESTA_H

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The request behind the call. Both doors answer it: `cuesta run`, and a mount. */
#define CUESTA_DSYNC _IO('C', 0xe6)

int syncfs(int file);

/* Waits until the disk has everything that had returned in the file's store before this call, by any process. `file`
 * is any open file of the store. On another file system this is syncfs, which promises the same there.
 * Returns 0, or -1 with errno: EIO if the disk did not take something. That is reported again until the store is
 * opened anew.
 */
static inline int cuesta_dsync(int file) {
    int done = ioctl(file, CUESTA_DSYNC);
    if (done == -1 && (errno == ENOTTY || errno == EINVAL || errno == ENOSYS))
        return syncfs(file);
    return done;
}

#ifdef __cplusplus
}
#endif

#endif
