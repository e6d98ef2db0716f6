/*
 * Has a program that works on a file work on it by two doors at once.
 *
 * Whatever it opens below the folder DOORS_FIRST is opened below DOORS_SECOND as well, and each call on it goes by one or
 * the other, as DOORS_SEED draws them. Loaded by LD_PRELOAD, in front of everything else. At the end it says on the standard error
 * how many calls went by each.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DESCRIPTORS 1024

static const char *first, *second;
static uint64_t state;
static unsigned long calls[2];
/* By the descriptor the program has: the other one, of the second door, or 0. */
static int others[DESCRIPTORS];

/* The function of that name that the program would have called. */
#define NEXT(name) ((__typeof__(&name))next(#name))

static void *next(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);
	if (!found)
		abort();
	return found;
}

__attribute__((constructor)) static void begin(void)
{
	const char *seed = getenv("DOORS_SEED");
	first = getenv("DOORS_FIRST");
	second = getenv("DOORS_SECOND");
	state = (seed ? strtoull(seed, NULL, 10) : 0) * 2 + 1;
}

__attribute__((destructor)) static void end(void)
{
	if (calls[0] + calls[1])
		fprintf(stderr, "calls by the doors: %lu and %lu\n", calls[0], calls[1]);
}

/* A descriptor of the same file, by one of the doors. */
static int by_a_door(int fd)
{
	if (fd < 0 || fd >= DESCRIPTORS || !others[fd])
		return fd;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	int which = state >> 32 & 1;
	calls[which]++;
	return which ? others[fd] : fd;
}

/*
 * The same for what the kernel does by what it knows of a file, and asks nobody: it maps, and copies to other descriptors. What
 * the other door did it learns when somebody asks for the attributes.
 */
static int by_a_door_that_knows(int fd)
{
	struct stat64 found;
	int by = by_a_door(fd);
	if (fd >= 0 && fd < DESCRIPTORS && others[fd])
		NEXT(fstat64)(by, &found);
	return by;
}

static int open_both(__typeof__(&open) how, const char *path, int flags, mode_t mode)
{
	int fd = how(path, flags, mode);
	if (fd < 0 || fd >= DESCRIPTORS || !first || !second || strncmp(path, first, strlen(first)))
		return fd;
	char there[PATH_MAX];
	snprintf(there, sizeof there, "%s%s", second, path + strlen(first));
	int other = how(there, flags & ~(O_CREAT | O_EXCL | O_TRUNC), 0);
	if (other < 0) {
		int why = errno;
		NEXT(close)(fd);
		errno = why;
		return -1;
	}
	others[fd] = other;
	return fd;
}

static mode_t mode_of(int flags, va_list rest)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
	va_list rest;
	va_start(rest, flags);
	mode_t mode = mode_of(flags, rest);
	va_end(rest);
	return open_both(NEXT(open), path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list rest;
	va_start(rest, flags);
	mode_t mode = mode_of(flags, rest);
	va_end(rest);
	return open_both(NEXT(open64), path, flags, mode);
}

int close(int fd)
{
	if (fd >= 0 && fd < DESCRIPTORS && others[fd]) {
		NEXT(close)(others[fd]);
		others[fd] = 0;
	}
	return NEXT(close)(fd);
}

ssize_t pread64(int fd, void *to, size_t bytes, off64_t at)
{
	return NEXT(pread64)(by_a_door(fd), to, bytes, at);
}

ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t at)
{
	return NEXT(pwrite64)(by_a_door(fd), from, bytes, at);
}

int ftruncate64(int fd, off64_t bytes)
{
	return NEXT(ftruncate64)(by_a_door(fd), bytes);
}

int fallocate(int fd, int how, off_t at, off_t bytes)
{
	return NEXT(fallocate)(by_a_door(fd), how, at, bytes);
}

int posix_fallocate(int fd, off_t at, off_t bytes)
{
	return NEXT(posix_fallocate)(by_a_door(fd), at, bytes);
}

int posix_fadvise(int fd, off_t at, off_t bytes, int advice)
{
	return NEXT(posix_fadvise)(by_a_door(fd), at, bytes, advice);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t bytes)
{
	return NEXT(sendfile64)(to, by_a_door_that_knows(from), at, bytes);
}

void *mmap(void *where, size_t bytes, int protection, int flags, int fd, off_t at)
{
	return NEXT(mmap)(where, bytes, protection, flags, by_a_door_that_knows(fd), at);
}

void *mmap64(void *where, size_t bytes, int protection, int flags, int fd, off64_t at)
{
	return NEXT(mmap64)(where, bytes, protection, flags, by_a_door_that_knows(fd), at);
}

int fsync(int fd)
{
	return NEXT(fsync)(by_a_door(fd));
}

int fdatasync(int fd)
{
	return NEXT(fdatasync)(by_a_door(fd));
}

off64_t lseek64(int fd, off64_t at, int whence)
{
	return NEXT(lseek64)(by_a_door(fd), at, whence);
}

int fstat64(int fd, struct stat64 *found)
{
	return NEXT(fstat64)(by_a_door(fd), found);
}

int statx(int fd, const char *path, int flags, unsigned wanted, struct statx *found)
{
	return NEXT(statx)(*path ? fd : by_a_door(fd), path, flags, wanted, found);
}

/* The Rust library `nix` copies from file to file this way. */
long syscall(long number, ...)
{
	long given[6];
	va_list rest;
	va_start(rest, number);
	for (int index = 0; index < 6; index++)
		given[index] = va_arg(rest, long);
	va_end(rest);
	if (number == SYS_copy_file_range && given[0] == given[2])
		/* Linux copies between no two file systems. */
		given[0] = given[2] = by_a_door_that_knows((int)given[0]);
	return NEXT(syscall)(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
