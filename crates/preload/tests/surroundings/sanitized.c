// A program without mistakes, built with a sanitizer, works with files by threads; one with a mistake, asked for, is found out.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *name) {
    char path[16], buffer[100];
    struct stat found;
    snprintf(path, sizeof path, "t%s", (char *)name);
    for (int turn = 0; turn < 100; turn++) {
        int f = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
        if (f < 0 || write(f, path, 2) != 2 || pread(f, buffer, 100, 0) != 2 || memcmp(buffer, path, 2) || fstat(f, &found) || close(f)) return "failed";
    }
    return NULL;
}

int main(int count, char **arguments) {
    static char *names[] = {"a", "b", "c"};
    pthread_t threads[3];
    void *said = NULL;
    char folder[4096];
    int entries = 0, status;
    if (count < 2 || chdir(arguments[1])) return 1;
    FILE *f = fopen("out", "w");
    for (int i = 0; i < 1000; i++) fprintf(f, "line %d\n", i);
    if (fclose(f)) return 2;
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, names[i]);
    for (int i = 0; i < 3; i++) if (pthread_join(threads[i], &said) || said) return 3;
    pid_t child = fork();
    if (child == 0) _exit(work("child") != NULL);
    if (waitpid(child, &status, 0) != child || status) return 4;
    DIR *d = opendir(".");
    while (readdir(d)) entries++;
    closedir(d);
    printf("%d %d\n", entries, getcwd(folder, sizeof folder) != NULL);
    return 0;
}
