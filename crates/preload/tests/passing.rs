//! Open files that a vfork child sends, and receives: its descriptors are its own, its memory is its parent's.

use std::process::Command;

use crate::common::{Finish as _, PREFIX, Served, compare, compiled, told};

/// A child made by vfork opens a file and sends it, and one of its parent's; another receives one. The receivers are the
/// parent, which then goes on with what it shares, and a program the child executes.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void send_both(int over, int one, int other) {
    char room[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec byte = {"x", 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(header), (int[]){one, other}, 2 * sizeof(int));
    if (sendmsg(over, &message, 0) != 1) perror("sendmsg");
}

static void receive_both(int over, int *both) {
    char room[CMSG_SPACE(2 * sizeof(int))], got;
    struct iovec byte = {&got, 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    if (recvmsg(over, &message, 0) != 1) perror("recvmsg");
    memcpy(both, CMSG_DATA(CMSG_FIRSTHDR(&message)), 2 * sizeof(int));
}

static const char *text(int fd) {
    static char bytes[100];
    long count = read(fd, bytes, sizeof bytes - 1);
    bytes[count < 0 ? 0 : count] = 0;
    return bytes;
}

int main(int count, char **arguments) {
    int pair[2], status, both[2];
    if (chdir(arguments[1])) return 1;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (int turn = 0; turn < 3; turn++) {
        int own = open("own", O_RDWR | O_CREAT | O_TRUNC, 0600);
        dprintf(own, "of the parent %d", turn);
        int child = vfork();
        if (child == 0) {
            int other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0600);
            dprintf(other, "of the child %d", turn);
            lseek(other, 7, SEEK_SET);
            lseek(own, 3, SEEK_SET);
            if (turn == 1) { unlink("own"); unlink("other"); }
            flock(other, LOCK_EX);
            send_both(pair[0], own, other);
            dprintf(other, "!");
            _exit(0);
        }
        waitpid(child, &status, 0);
        receive_both(pair[1], both);
        printf("%d %s", status, text(both[0]));
        printf("| %s|", text(both[1]));
        lseek(both[0], 0, SEEK_SET);
        printf(" %s %d", text(own), flock(both[1], LOCK_EX | LOCK_NB));
        /* One description, whose lock all have. */
        printf(" %d", flock(own, LOCK_EX | LOCK_NB));
        printf(" %d", flock(both[0], LOCK_EX | LOCK_NB));
        int again = open("other", O_RDWR);
        printf(" %d\n", again < 0 ? 2 : flock(again, LOCK_EX | LOCK_NB));
        close(again); close(both[0]); close(both[1]); close(own);
        fflush(stdout);
    }
    int given = open("given", O_RDWR | O_CREAT | O_TRUNC, 0600);
    dprintf(given, "what was given\n");
    lseek(given, 5, SEEK_SET);
    send_both(pair[0], given, given);
    int child = vfork();
    if (child == 0) {
        receive_both(pair[1], both);
        dup2(both[0], 0);
        execlp("cat", "cat", NULL);
        _exit(9);
    }
    waitpid(child, &status, 0);
    printf("%d %ld\n", status, lseek(given, 0, SEEK_CUR));
}"#;

#[test]
fn a_vfork_child_sends_and_receives_open_files_as_on_ext4() {
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "sends", PROGRAM, &["-Wno-unused-result"]);
    let program = program.to_str().expect("a plain name");
    let kernel = Command::new(program).arg(folder.path()).finish();
    let store = Served::new();
    let ours = store.command(program).arg(PREFIX).finish();
    assert!(told(&kernel).starts_with("0 the parent 0"), "{}", told(&kernel));
    compare(&told(&kernel), &told(&ours));
}
