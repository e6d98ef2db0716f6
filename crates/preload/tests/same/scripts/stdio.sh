# The C library's streams: every mode of fopen on a file that is there and one that is not, buffers, positions, pipes.
cat > stdio.c <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>
#include <locale.h>

static const char *modes[] = {"r", "rb", "r+", "rb+", "r+b", "w", "wb", "w+", "wx", "w+x", "a", "ab", "a+", "a+b", "ae", "rm", "r+m", "rc", "wce", "x", "", "rw", "w,ccs=UTF-8", "r,ccs=UTF-16"};

static void say(const char *what, long answer) {
    printf("%s=%ld%s%s; ", what, answer, answer < 0 ? " " : "", answer < 0 ? strerrorname_np(errno) : "");
    errno = 0;
}

static void content(const char *name) {
    int fd = open(name, O_RDONLY);
    if (fd < 0) {
        printf("[no %s: %s]\n", name, strerrorname_np(errno));
        errno = 0;
        return;
    }
    char bytes[64];
    long count, all = 0;
    printf("[");
    while ((count = read(fd, bytes, sizeof bytes)) > 0) {
        all += count;
        for (long at = 0; at < count && all < 200; at++)
            putchar(bytes[at] >= ' ' && bytes[at] < 127 ? bytes[at] : '~');
    }
    struct stat stat;
    fstat(fd, &stat);
    printf("] %ld %o\n", all, stat.st_mode & 0777);
    close(fd);
}

static void fill(const char *name) {
    FILE *f = fopen(name, "w");
    for (int line = 0; line < 3; line++)
        fprintf(f, "line %d\n", line);
    fclose(f);
}

/* One of everything, in an order in which each mode may do something. */
static void all_of(FILE *f) {
    char bytes[100];
    say("flags", fcntl(fileno(f), F_GETFL) & (O_ACCMODE | O_APPEND));
    say("cloexec", fcntl(fileno(f), F_GETFD));
    say("tell", ftell(f));
    say("getc", getc(f));
    clearerr(f);
    say("tell", ftell(f));
    say("ungetc", ungetc('U', f));
    say("tell", ftell(f));
    say("getc", getc(f));
    clearerr(f);
    say("seek", fseek(f, 2, SEEK_SET));
    say("puts", fputs("PUT", f));
    say("flush", fflush(f));
    say("error", ferror(f));
    clearerr(f);
    say("tell", ftell(f));
    say("seek end", fseek(f, -1, SEEK_END));
    say("read", fread(bytes, 1, 10, f));
    say("eof", feof(f));
    say("seek before", fseek(f, -1000, SEEK_CUR));
    say("seek hole", fseeko(f, 30, SEEK_SET));
    say("printf", fprintf(f, "<%05d>", 42));
    say("tell", ftello(f));
    rewind(f);
    char *line = NULL;
    size_t room = 0;
    say("getline", getline(&line, &room, f));
    free(line);
    clearerr(f);
    int one = -1, two = -1;
    rewind(f);
    say("scanf", fscanf(f, "%*4s %d %d", &one, &two));
    printf("%d %d; ", one, two);
    clearerr(f);
    fpos_t position;
    say("getpos", fgetpos(f, &position));
    say("write", fwrite("0123456789", 5, 2, f));
    say("setpos", fsetpos(f, &position));
    say("kernel's", lseek(fileno(f), 0, SEEK_CUR) >= 0);
    say("truncate", ftruncate(fileno(f), 33));
    say("close", fclose(f));
}

static void buffers(void) {
    static char buffer[100000];
    int kinds[] = {_IONBF, _IOLBF, _IOFBF};
    size_t sizes[] = {0, 1, 7, 4096, 100000};
    for (int kind = 0; kind < 3; kind++)
        for (int size = 0; size < 5; size++) {
            FILE *f = fopen("buffered", "w+");
            say("setvbuf", setvbuf(f, sizes[size] ? buffer : NULL, kinds[kind], sizes[size]));
            for (int line = 0; line < 300; line++) {
                fprintf(f, "%d:", line);
                if (line % 50 == 0)
                    fputc('\n', f);
            }
            struct stat stat;
            fstat(fileno(f), &stat);
            printf("%d %d: %ld, ", kind, size, (long) stat.st_size);
            fseek(f, 500, SEEK_SET);
            printf("%d%d, kernel's %ld, ", fgetc(f), fgetc(f), (long) lseek(fileno(f), 0, SEEK_CUR) > 500);
            fflush(f);
            printf("flushed %ld, ", (long) lseek(fileno(f), 0, SEEK_CUR));
            printf("purge %ld: ", (__fpurge(f), ftell(f)));
            fclose(f);
            content("buffered");
        }
    FILE *f = fopen("large", "w+");
    for (int part = 0; part < 64; part++) {
        memset(buffer, 'a' + part % 26, sizeof buffer);
        fwrite(buffer, 1, 3001 * (part % 33 + 1), f);
    }
    say("large", ftell(f));
    long sum = 0;
    rewind(f);
    for (int c; (c = getc(f)) != EOF;)
        sum = sum * 31 % 1000003 + c;
    say("sum", sum);
    for (long at = ftell(f); at > 0; at -= 70001) {
        fseek(f, at, SEEK_SET);
        sum = sum * 31 % 1000003 + getc(f) + fwrite("!", 1, 0, f);
        ungetc('u', f);
        fseek(f, -1, SEEK_CUR);
        sum += getc(f);
    }
    say("sum", sum);
    fclose(f);
    puts("");
}

static void shared(void) {
    /* Offset shared with a child; the parent's stream goes on behind what the child wrote. */
    FILE *f = fopen("shared", "w");
    fputs("parent\n", f);
    fflush(NULL);
    if (fork() == 0) {
        fputs("child\n", f);
        exit(0);
    }
    wait(NULL);
    fputs("parent again\n", f);
    fflush(NULL);
    fprintf(f, "%d ", system("echo a program >> shared; exit 3") >> 8);
    fclose(f);
    content("shared");
    f = popen("cat > piped; echo done >> piped", "w");
    for (int line = 0; line < 5; line++)
        fprintf(f, "%d\n", line);
    say("pclose", pclose(f));
    content("piped");
    f = popen("cat piped; exit 7", "re");
    char bytes[100];
    say("piped", fread(bytes, 1, sizeof bytes, f));
    say("pclose", pclose(f) >> 8);
    FILE *one = popen("cat piped", "r"), *two = popen("cat >> piped", "w");
    fputs("two\n", two);
    say("two", pclose(two));
    say("one", pclose(one) >= 0);
    content("piped");
}

static void temporary(void) {
    FILE *f = tmpfile();
    fputs("temporary", f);
    rewind(f);
    char bytes[20];
    struct stat stat;
    fstat(fileno(f), &stat);
    printf("%s %ld; ", fgets(bytes, 20, f), (long) stat.st_nlink);
    fclose(f);
    char name[] = "madeXXXXXX", suffixed[] = "madeXXXXXX.c", folder[] = "folderXXXXXX";
    int fd = mkstemp(name), other = mkostemps(suffixed, 2, O_APPEND | O_CLOEXEC);
    say("mkdtemp", mkdtemp(folder) != NULL && rmdir(folder) == 0);
    f = fdopen(fd, "r+");
    say("r+ as a", fdopen(fd, "a") != NULL);
    say("append", (fcntl(fd, F_GETFL) & O_APPEND) != 0);
    fputs("made", f);
    rename(name, "made");
    fputs(" renamed", f);
    unlink("made");
    fputs(" unlinked", f);
    rewind(f);
    printf("%s; ", fgets(bytes, 20, f));
    fclose(f);
    FILE *g = fdopen(other, "w");
    say("mode of", fdopen(other, "nonsense") == NULL);
    fputs("one", g);
    rewind(g);
    fputs("two", g);
    fclose(g);
    rename(suffixed, "suffixed");
    content("suffixed");
    chdir("/");
    chdir(getenv("D"));
    f = fopen("readonly", "w");
    fclose(f);
    int readable = open("readonly", O_RDONLY);
    say("fdopen w of r", fdopen(readable, "w") != NULL);
    say("fdopen r", fdopen(readable, "r") != NULL);
    say("a directory", fopen(".", "r") != NULL);
    f = fopen(".", "r");
    say("read of it", getc(f));
    say("write of it", fopen(".", "w") == NULL);
    say("freopen of nothing", freopen("nowhere/x", "r", f) == NULL);
    puts("");
}

static void reopened(void) {
    fill("re");
    FILE *f = fopen("re", "r");
    getc(f);
    f = freopen("re", "a", f);
    fputs("appended\n", f);
    f = freopen(NULL, "r+", f);
    say("reopened", f != NULL);
    if (f) {
        say("getc", getc(f));
        fseek(f, 0, SEEK_CUR);
        fputs("XX", f);
        f = freopen("re2", "w", f);
        fputs("second", f);
        fclose(f);
    }
    content("re");
    content("re2");
    fflush(stdout);
    int saved = dup(1);
    stdout = freopen("out", "w", stdout);
    printf("to a file %d\n", fileno(stdout));
    system("echo from a program");
    puts("again");
    fflush(stdout);
    dup2(saved, 1);
    content("out");
    fflush(stdout);
    close(0);
    stdin = freopen("out", "r", stdin);
    char line[50];
    printf("%s", fgets(line, 50, stdin));
    system("cat");
    rewind(stdin);
    fflush(stdout);
    system("cat; echo; readlink /proc/self/fd/0 | grep -c out");
    say("stdin", getchar());
    puts("");
}

static void wide(void) {
    setlocale(LC_ALL, "C.UTF-8");
    FILE *f = fopen("wide", "w+");
    say("orientation", fwide(f, 1) > 0);
    fwprintf(f, L"w\u00fcrde %ls %d\n", L"\u4e2d\u6587", 7);
    rewind(f);
    wchar_t line[50];
    say("length", wcslen(fgetws(line, 50, f)));
    say("unget", ungetwc(0x4e2d, f) == 0x4e2d && fgetwc(f) == 0x4e2d);
    fseek(f, 0, SEEK_END);
    say("tell", ftell(f));
    fclose(f);
    f = fopen("utf16", "w,ccs=UTF-16LE");
    if (f) {
        fputws(L"abc\u4e2d", f);
        fclose(f);
    }
    content("wide");
    content("utf16");
    f = fopencookie(NULL, "r", (cookie_io_functions_t) {0});
    fclose(f);
    f = fmemopen(NULL, 10, "w+");
    fputs("memory", f);
    fclose(f);
    f = fopen("wide", "r");
    FILE *again = fopen("/dev/stdin", "r");
    say("dev stdin", again != NULL);
    char name[40];
    sprintf(name, "/dev/fd/%d", fileno(f));
    again = fopen(name, "r+");
    say("dev fd", fputs("W", again));
    fclose(again);
    say("seen", getc(f));
    say("locked", (flockfile(f), getc_unlocked(f)));
    funlockfile(f);
    say("fcloseall", fcloseall());
}

int main(void) {
    for (int existing = 0; existing < 2; existing++)
        for (unsigned mode = 0; mode < sizeof modes / sizeof *modes; mode++) {
            unlink("f");
            if (existing)
                fill("f");
            errno = 0;
            FILE *f = fopen("f", modes[mode]);
            printf("%s %d: ", modes[mode], existing);
            if (f)
                all_of(f);
            else
                printf("%s ", strerrorname_np(errno));
            content("f");
        }
    buffers();
    shared();
    temporary();
    reopened();
    wide();
    FILE *left = fopen("left", "w");
    fputs("written as the program ends", left);
    return 0;
}
C
gcc -O1 -w -o stdio stdio.c; TMPDIR=$D ./stdio 2>&1 < /dev/null; cat left; TMPDIR=$D ./stdio > said < /dev/null 2>&1; wc -l < said; cat said | tail -1; ./stdio 2>&1 < stdio.c | cksum; rm -f made??????* stdio
python3 - <<'P'
import io, itertools, os
for mode, buffering in itertools.product(('r', 'r+', 'w', 'w+', 'x', 'x+', 'a', 'a+', 'rb', 'rb+', 'wb', 'wb+', 'ab', 'ab+', 'xb'), (-1, 0, 1, 10)):
    for exists in False, True:
        if os.path.exists('p'): os.unlink('p')
        if exists:
            with open('p', 'w') as file: file.write('first\nsecond\nthird\n')
        said = [mode, buffering, exists]
        try:
            with open('p', mode, buffering) as file:
                data = (lambda text: text.encode()) if 'b' in mode else str
                for step in (lambda: file.tell(), lambda: file.readline(), lambda: file.tell(), lambda: file.write(data('WRITTEN\n')), lambda: file.flush(), lambda: os.fstat(file.fileno()).st_size,
                             lambda: file.seek(3), lambda: file.read(4), lambda: file.seek(0, 2), lambda: file.write(data('end')), lambda: file.seek(0), lambda: file.read(), lambda: file.truncate(12), lambda: list(file), lambda: file.seek(2) and file.truncate()):
                    try: said.append(step())
                    except (OSError, ValueError, TypeError) as error: said.append(type(error).__name__)
        except (OSError, ValueError) as error: said.append(str(error))
        said.append(open('p', 'rb').read() if os.path.exists('p') else None)
        print(*said)
P
