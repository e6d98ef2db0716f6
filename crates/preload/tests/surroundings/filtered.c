// Programs that filter their own system calls, and work with what they have open: as much as a filter of plain reading and writing
// lets them, and no more.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static char block[1 << 16];

static void filter(unsigned otherwise, int flags) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(read), ALLOW(write), ALLOW(pread64), ALLOW(pwrite64), ALLOW(lseek), ALLOW(fsync), ALLOW(newfstatat), ALLOW(fstat), ALLOW(close),
        ALLOW(exit), ALLOW(exit_group), ALLOW(rt_sigreturn), ALLOW(brk),
        BPF_STMT(BPF_RET | BPF_K, otherwise),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (flags < 0 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program)) _exit(90);
}

static int work_without_close(int in, int out) {
    long sum = 0;
    for (int turn = 0; turn < 512; turn++) {
        memset(block, 'a' + turn % 26, sizeof block);
        if (write(out, block, sizeof block) != sizeof block) return 2;
        if (read(in, block, 100) == 100) sum += block[50];
    }
    return sum == 0 ? 4 : 0;
}

static int work(int in, int out) {
    int status = work_without_close(in, out);
    return close(out) ? 3 : status;
}

static void *again(void *out) {
    for (int turn = 0; turn < 100; turn++)
        if (pwrite(*(int *)out, "thread", 6, turn * 6) != 6) return "failed";
    return NULL;
}

static void run(int kind, int in, int out) {
    struct stat found;
    int status = 0;
    pthread_t thread;
    void *said;
    switch (kind) {
    case 0: prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); status = work_without_close(in, out); syscall(SYS_exit, status);
    case 1: filter(SECCOMP_RET_KILL_PROCESS, -1); _exit(work(in, out));
    case 2: filter(SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC); _exit(work(in, out));
    case 3: filter(SECCOMP_RET_ERRNO | EPERM, 0); status = open("in", O_RDONLY) >= 0 || errno != EPERM || unlink("in") == 0 || errno != EPERM || mkdir("no", 0700) == 0 || ftruncate(out, 0) == 0; _exit(status ? 80 : work(in, out));
    case 4: filter(SECCOMP_RET_KILL_PROCESS, 0); open("in", O_RDONLY); _exit(5);
    case 5: filter(SECCOMP_RET_KILL_PROCESS, 0); ftruncate(out, 0); _exit(5);
    case 6: filter(SECCOMP_RET_KILL_PROCESS, 0); _exit(fstat(in, &found) || found.st_size != sizeof block || lseek(in, 5, SEEK_SET) != 5 || fsync(out) ? 6 : work(in, out));
    case 7:
        pthread_create(&thread, NULL, again, &out); pthread_join(thread, &said);
        filter(SECCOMP_RET_ERRNO | ENOSYS, 0); _exit(said || again(&out) || read(-1, block, 1) != -1 || errno != EBADF);
    case 8: filter(SECCOMP_RET_KILL_PROCESS, 0); filter(SECCOMP_RET_KILL_PROCESS, 0); _exit(7);
    }
}

int main(int count, char **arguments) {
    if (count < 2 || chdir(arguments[1])) return 1;
    int in = open("in", O_RDWR | O_CREAT, 0644);
    memset(block, 'i', sizeof block);
    write(in, block, sizeof block);
    close(in);
    for (int kind = 0; kind < 9; kind++) {
        char name[16];
        struct stat found = {0};
        int status, out;
        snprintf(name, sizeof name, "out%d", kind);
        out = open(name, O_RDWR | O_CREAT, 0644);
        in = open("in", O_RDONLY);
        fflush(stdout);
        if (fork() == 0) run(kind, in, out);
        wait(&status);
        close(in), close(out);
        stat(name, &found);
        printf("%d: %x, %ld bytes\n", kind, status & 0xff7f, (long)found.st_size);
    }
    return 0;
}
