# gcc and make -j2 build a project with libraries, generated sources and its own tests; twice, and after a change.
mkdir -p p/src p/include p/tests p/lib; cd p; for i in $(seq 12); do printf '#include "part.h"\n#include <math.h>\nint part%d(int x) { return x * %d + (int) floor(%d.5); }\n' $i $i $i > src/part$i.c; printf 'int part%d(int x);\n' $i; done > include/part.h
printf '#include <stdio.h>\n#include "part.h"\n#include "made.h"\nint main(int n, char **v) { FILE *f = fopen(n > 1 ? v[1] : "out.txt", "w"); fprintf(f, "%%d %%s\\n", part1(2) + part12(3), MADE); return fclose(f); }\n' > src/main.c
cat > tests/test.cc <<'C'
#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>
#include <vector>
#include <unistd.h>
extern "C" {
#include "part.h"
}
namespace fs = std::filesystem;
int main() {
    assert(part3(1) == 6);
    fs::create_directories("fs/a/b"); std::ofstream("fs/a/f") << "text" << std::endl; fs::copy("fs/a", "fs/c", fs::copy_options::recursive); fs::rename("fs/c/f", "fs/g"); fs::create_symlink("g", "fs/l"); fs::create_hard_link("fs/g", "fs/h"); fs::resize_file("fs/g", 2); fs::permissions("fs/g", fs::perms::owner_read | fs::perms::owner_write);
    std::vector<std::string> found; for (auto &e : fs::recursive_directory_iterator("fs")) found.push_back(e.path().string()); std::sort(found.begin(), found.end()); for (auto &p : found) std::cout << p << " " << fs::is_symlink(p) << fs::is_directory(p) << "\n";
    std::cout << fs::file_size("fs/h") << fs::hard_link_count("fs/h") << fs::equivalent("fs/g", "fs/l") << fs::read_symlink("fs/l") << fs::weakly_canonical("fs/x/../g").filename() << fs::remove_all("fs") << fs::exists("fs") << "\n";
    std::fstream both("both", std::ios::in | std::ios::out | std::ios::trunc); both << 12345 << " " << 6.5; both.seekg(0); int i; double d; both >> i >> d; std::cout << i << d << both.tellg() << "\n"; both.close();
    FILE *f = fopen("stdio", "w+"); setvbuf(f, nullptr, _IOFBF, 100000); for (int k = 0; k < 50000; k++) fprintf(f, "%d\n", k); fseek(f, -6, SEEK_END); char line[20]; assert(fgets(line, 20, f)); std::cout << line << ftell(f); rewind(f); ungetc('x', f); std::cout << (char) fgetc(f) << (char) fgetc(f); f = freopen("stdio", "a", f); fputs("end", f); fclose(f); f = fopen("stdio", "rx"); std::cout << (fopen("stdio", "wx") == nullptr); FILE *t = tmpfile(); fputs("t", t); fclose(t); f = popen("cat stdio | tail -c 3", "r"); assert(fgets(line, 20, f)); std::cout << line << pclose(f) << "\n";
    char name[] = "tempXXXXXX"; int fd = mkstemp(name); assert(write(fd, name, 4) == 4 && lseek(fd, 0, SEEK_CUR) == 4); dprintf(fd, "%d", 7); f = fdopen(fd, "r+"); rewind(f); assert(fscanf(f, "temp%d", &i) == 1); std::cout << i << "\n"; unlink(name); fclose(f);
    std::vector<std::thread> threads; for (int k = 0; k < 8; k++) threads.emplace_back([k] { for (int j = 0; j < 100; j++) { auto n = "th" + std::to_string(k); std::ofstream(n) << j; int x; std::ifstream(n) >> x; assert(x == j); fs::remove(n); } }); for (auto &thread : threads) thread.join();
    return 0;
}
C
cat > Makefile <<'M'
CFLAGS = -O1 -Iinclude -Igen -fPIC -MMD -fdebug-prefix-map=$(CURDIR)=. -Wall
CXXFLAGS = $(CFLAGS) -std=c++17
OBJECTS = $(patsubst src/%.c,obj/%.o,$(wildcard src/part*.c))
all: bin/static bin/shared bin/test
gen/made.h: Makefile
	mkdir -p gen && echo '#define MADE "made"' > $@.tmp && mv $@.tmp $@
obj/%.o: src/%.c | obj gen/made.h
	$(CC) $(CFLAGS) -c -o $@ $<
lib/libpart.a: $(OBJECTS)
	rm -f $@ && ar rcD $@ $^ && ranlib -D $@
lib/libpart.so: $(OBJECTS)
	$(CC) -shared -o $@ $^ -lm -Wl,--build-id=none
obj bin:
	mkdir -p $@
bin/static: obj/main.o lib/libpart.a | bin
	$(CC) -o $@ $< -Llib -l:libpart.a -lm
bin/shared: obj/main.o lib/libpart.so | bin
	$(CC) -o $@ $< -Llib -lpart -Wl,-rpath,'$$ORIGIN/../lib'
bin/test: tests/test.cc lib/libpart.a | bin
	$(CXX) $(CXXFLAGS) -pthread -o $@ $< -Llib -l:libpart.a -lm
check: all
	mkdir -p run && cd run && ../bin/static s && cat s && ../bin/shared t && cat t && ../bin/test
install: all
	install -d $(DESTDIR)/bin && install -s bin/static bin/shared $(DESTDIR)/bin
clean:
	rm -rf obj bin gen lib/* run
-include $(wildcard obj/*.d)
M
make -s -j2 2>&1 | sort; make -j2 | sed "s#$D##"; make -s check; touch src/part3.c; make -j2 | sort | sed "s#$D##"; echo 'int part3(int x) { return 0; }' > src/part3.c; make -s check 2>&1 | sed 's/.*assertion/assertion/I; s/(core dumped)//' | cut -c1-40 | head -1; touch include/part.h; make -s -j2; make -q; make install DESTDIR=../installed; ../installed/bin/static ../x; gcc -E -Iinclude src/part1.c | wc -l; gcc -save-temps -c -Iinclude src/part2.c; ls; TMPDIR=$PWD gcc -pipe -flto -O2 -Iinclude -Igen src/*.c -o lto -lm; ./lto; cat out.txt; gcc -g -Iinclude -c src/part1.c -o g.o -fdebug-prefix-map=$PWD=.; echo 'int main(){return 3;}' | gcc -x c - -o three; ./three; gcc -include include/part.h -x c-header include/part.h -o pre.h.gch && ls pre.h.gch; ld -r -o r.o obj/part1.o obj/part2.o; gcc missing.c 2>&1 | head -1; printf '.globl f\nf: ret\n' | as -o as.o -; nm as.o; gdb -batch -nx -ex 'print part1(1)' -ex 'info line main' lto 2>&1 | tail -1 | cut -c1-20; make clean; find . | sort; rm -f pre.h.gch
