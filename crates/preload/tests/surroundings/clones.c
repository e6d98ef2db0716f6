// Children that share this process's memory or its descriptors and end: what their parent has afterwards.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int kept, closed;
static char stack[1 << 18] __attribute__((aligned(16)));

static int child(void *how) {
    const char *does = how;
    char buffer[8];
    int own;
    for (; *does; does++)
        switch (*does) {
        case 'r': pread(kept, buffer, 4, 0); break;
        case 'w': pwrite(kept, "W", 1, 0); break;
        case 'o': own = open("child", O_RDWR | O_CREAT, 0644); write(own, "child", 5); break;
        case 'c': close(closed); break;
        case 'x': execl("/bin/true", "true", (char *)0); break;
        case 'f': syscall(SYS_exit_group, 7); break;
        }
    _exit(3);
}

static void look(const char *what) {
    char buffer[8] = "";
    int status, again;
    long read_ = pread(kept, buffer, 4, 0);
    printf("%s: kept %ld %s (%d)", what, read_, buffer, read_ < 0 ? errno : 0);
    again = open("f", O_RDWR);
    status = write(again, "again", 5);
    printf(", open %d, closed %d, child %d\n", status, fcntl(closed, F_GETFD) >= 0 ? (int)pread(closed, buffer, 4, 0) : -errno, access("child", F_OK));
    close(again);
    unlink("child");
    fflush(stdout);
}

int main(int count, char **arguments) {
    static const struct { const char *name; int flags; } kinds[] = {
        {"nothing", 0}, {"files", CLONE_FILES}, {"memory", CLONE_VM}, {"memory, files", CLONE_VM | CLONE_FILES},
        {"vfork", CLONE_VM | CLONE_VFORK}, {"vfork, files", CLONE_VM | CLONE_VFORK | CLONE_FILES}, {"fs", CLONE_FS}, {"vfork without memory", CLONE_VFORK},
    };
    static const char *does[] = {"", "r", "rw", "o", "ro", "c", "x", "rx", "f", "rf"};
    if (count < 2 || chdir(arguments[1])) return 1;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    kept = open("f", O_RDWR | O_CREAT, 0644);
    write(kept, "text", 4);
    for (unsigned kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (unsigned one = 0; one < sizeof does / sizeof *does; one++) {
            char what[64];
            int status = 0, pid;
            // Of a table that both have, what the child does with descriptors is its own: see the limits.
            if (kinds[kind].flags == CLONE_FILES && strchr(does[one], 'c')) continue;
            closed = open("f", O_RDONLY);
            fflush(stdout);
            pid = clone(child, stack + sizeof stack, kinds[kind].flags | SIGCHLD, (void *)does[one]);
            waitpid(pid, &status, 0);
            snprintf(what, sizeof what, "%s %s %x", kinds[kind].name, does[one], status);
            look(what);
            close(closed);
        }
    return 0;
}
