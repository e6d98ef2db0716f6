# `make demo` and `make test` do everything on a fresh Debian 12 with a Rust toolchain. `make help` lists the rest.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
CUESTA := $(TARGET)/release/cuesta

# Crates with lock-free code, built so that the model checker runs it.
MODELS := -p cuesta-oplog -p cuesta-threads -p cuesta-served --features cuesta-oplog/model,cuesta-threads/model,cuesta-served/model

.PHONY: help build demo test test-suites test-campaigns test-hunts test-long conform programs bench explore models kill-campaign power-campaign damage-campaign \
	linearizability soak fuzz fuzz-door test-pmem lint install setup

help:
	@echo "make demo           build, run the main job on real input, kill it, prove that nothing was lost"
	@echo "make test           all tests"
	@echo "make test-long      the campaigns at length, one after the other: some hours"
	@echo "make conform        pjdfstest and fsx at length (make test runs a slice; ARGUMENTS=--help)"
	@echo "make programs       more real programs compared with ext4: python3's own tests, redis, RocksDB, git gc, make"
	@echo "make bench          measure against tmpfs, ext4 and XFS; writes JSON and plots into out/ (SUBJECT=sharing, tiers or migration for some rows only)"
	@echo "make explore        the whole crash campaign (make test runs a slice; ARGUMENTS=--help)"
	@echo "make models         the lock-free code under the model checker, one preemption deeper than in make test"
	@echo "make kill-campaign  hundreds of random SIGKILLs of programs, daemon and mount (ARGUMENTS=--help)"
	@echo "make power-campaign  500 power cuts of the disk below a store in optimistic mode (ARGUMENTS=--help)"
	@echo "make damage-campaign  1,000 random damages of a store's files: each is healed or told (ARGUMENTS=--help)"
	@echo "make linearizability  processes at once, killed and stopped: each call takes effect at one instant (ARGUMENTS=--help)"
	@echo "make soak           real programs of two users for MINUTES=n, anything killed, all read again (ARGUMENTS=--help)"
	@echo "make fuzz-door      random system calls under cuesta run and on the disk, compared (ARGUMENTS=--help)"
	@echo "make fuzz           the fuzz targets, each for MINUTES=n (make test runs a slice; TARGETS=… for some)"
	@echo "make test-pmem      suites, power cuts, poisoned pages, memory nodes, in a QEMU guest (ARGUMENTS=--help; make test runs a slice)"
	@echo "make lint           formatting and clippy"
	@echo "make install        the command, its library and cuesta.h into PREFIX (default /usr/local)"

setup:
	@setup/toolchain
	@setup/packages cc=gcc /usr/include/stdio.h=libc6-dev sqlite3=sqlite3 python3=python3 make=make

# The command finds the preload library beside itself, so both are built together.
build: setup
	$(CARGO) build --release -p cuesta -p cuesta-preload

demo: build
	@setup/packages eatmydata=eatmydata
	@python3 demo/demo.py $(CUESTA) $(TARGET)/demo

# One profile and one set of features for everything, so that each crate is compiled once: with the recorder, which the crash
# explorer needs and which costs everything else one look at a flag. Once all is built there are three lanes for two processors: the
# suites wait for something half of the time, and so do the guests. Each stage tells how long it took.
CHECKED := --profile checked
RECORDED := $(CHECKED) --workspace --features cuesta-sim/record
STAGE := @setup/stage

test: setup
	@setup/packages fio=fio mkfs.ext4=e2fsprogs /usr/include/sqlite3.h=libsqlite3-dev /usr/include/sys/acl.h=libacl1-dev \
		perl=perl git=git node=nodejs setfattr=attr setfacl=acl sudo=sudo $(COMPARED) $(GUEST)
	$(STAGE) build $(CARGO) build $(RECORDED) --all-targets
	$(STAGE) build-explorer $(CARGO) build $(RECORDED) --test explorer
	$(STAGE) lanes $(MAKE) --no-print-directory -j3 test-suites test-campaigns test-hunts

test-suites:
	$(STAGE) suites $(CARGO) test $(RECORDED) --lib --bins --tests --no-fail-fast

test-campaigns:
	$(STAGE) explorer $(CARGO) test $(RECORDED) --test explorer
	$(STAGE) guest python3 guest/test.py $(TARGET) --profile checked --slice

test-hunts:
	$(STAGE) models $(CARGO) test $(CHECKED) $(MODELS) --lib models::
	$(STAGE) fuzz env SEED=1 fuzz/run 2
	$(STAGE) suites-on-disk env CUESTA_TEST_MEDIUM=block setup/suites media sharedfs libfs -- $(CARGO) test $(RECORDED)
	$(STAGE) conform python3 conform/conform.py $(TARGET)/checked/cuesta $(TARGET)/conform --seeds 1 --operations 20000

# The campaigns at length, for those who touched what they look at: some hours.
test-long: build
	$(MAKE) explore
	$(MAKE) models
	$(MAKE) kill-campaign
	$(MAKE) power-campaign
	$(MAKE) linearizability
	$(MAKE) damage-campaign
	$(MAKE) soak
	$(MAKE) fuzz
	$(MAKE) conform
	$(MAKE) programs
	$(MAKE) test-pmem

# What the scripts in crates/preload/tests/same and crates/cuesta/tests/programs start, apart from what every Debian has.
COMPARED := rsync=rsync cpio=cpio zip=zip unzip=unzip xz=xz-utils bzip2=bzip2 zstd=zstd lz4=lz4 patch=patch ed=ed \
	vim=vim xxd=xxd file=file busybox=busybox g++=g++ sqlite3=sqlite3 ld.gold=binutils \
	/usr/lib/python3/dist-packages/lmdb=python3-lmdb

programs: build
	@setup/packages perl=perl git=git node=nodejs fio=fio setfacl=acl setfattr=attr mkfs.ext4=e2fsprogs sudo=sudo /usr/include/sqlite3.h=libsqlite3-dev $(COMPARED) gdb=gdb \
		db_bench=rocksdb-tools redis-server=redis-server go=golang-go \
		/usr/lib/python3.11/test/test_os.py=libpython3.11-testsuite
	$(CARGO) test --release -p cuesta-preload --test same -- --include-ignored
	$(CARGO) test --release -p cuesta --test programs -- --include-ignored

conform: build
	@setup/packages mkfs.ext4=e2fsprogs /usr/include/sys/acl.h=libacl1-dev
	@python3 conform/conform.py $(CUESTA) $(TARGET)/conform $(ARGUMENTS)

bench: build
	@setup/packages fio=fio db_bench=rocksdb-tools eatmydata=eatmydata git=git /usr/sbin/nginx=nginx-light bindfs=bindfs mkfs.ext4=e2fsprogs mkfs.xfs=xfsprogs /usr/include/sqlite3.h=libsqlite3-dev
	@mkdir -p out
	$(CARGO) run --release -p cuesta-bench -- run $(addprefix --subject ,$(SUBJECT)) --json out/bench$(addprefix -,$(SUBJECT)).json
	$(if $(SUBJECT),,$(CARGO) run --release -p cuesta-bench -- curves --json out/curves.json --out out)

explore:
	$(CARGO) build --release --workspace --features cuesta-sim/record --bin crash-campaign
	$(TARGET)/release/crash-campaign $(ARGUMENTS)

models:
	CUESTA_MODEL_PREEMPTIONS=3 $(CARGO) test --release $(MODELS) --lib models:: -- --nocapture

kill-campaign: build
	$(CARGO) build --release -p cuesta-sim --bins
	$(TARGET)/release/kill-campaign $(ARGUMENTS)

power-campaign: build
	@setup/packages mkfs.ext4=e2fsprogs python3=python3
	$(CARGO) build --release -p cuesta-sim --bins
	$(TARGET)/release/power-campaign $(ARGUMENTS)

damage-campaign: build
	$(CARGO) build --release -p cuesta-sim --bins
	$(TARGET)/release/damage-campaign $(ARGUMENTS)

linearizability: build
	$(CARGO) build --release -p cuesta-sim --bins
	$(TARGET)/release/linearizability campaign $(ARGUMENTS)

fuzz-door: build
	$(CARGO) build --release -p cuesta-sim --bins
	$(TARGET)/release/door-fuzz campaign $(ARGUMENTS)

MINUTES ?= 10
soak: build
	@setup/packages git=git sqlite3=sqlite3 gcc=gcc make=make python3=python3 \
		/usr/lib/python3/dist-packages/lmdb=python3-lmdb
	$(CARGO) build --release -p cuesta-sim --bins
	$(TARGET)/release/soak --minutes $(MINUTES) $(ARGUMENTS)

fuzz: setup
	@setup/packages g++=g++
	fuzz/run $$(( $(MINUTES) * 60 )) $(TARGETS)

# What the guest is made of.
GUEST := qemu-system-x86_64=qemu-system-x86 ndctl=ndctl cpio=cpio modprobe=kmod mkfs.ext4=e2fsprogs python3=python3 \
	ip=iproute2 /bin/busybox=busybox /usr/share/doc/linux-image-amd64=linux-image-amd64

test-pmem: build
	$(CARGO) build --release -p cuesta-sim --bins
	@setup/packages $(GUEST)
	@python3 guest/test.py $(TARGET) $(ARGUMENTS)

lint:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy $(MODELS) --all-targets -- -D warnings

PREFIX ?= /usr/local
install: build
	install -D -m 755 $(CUESTA) $(DESTDIR)$(PREFIX)/bin/cuesta
	install -D -m 644 $(TARGET)/release/libcuesta_preload.so $(DESTDIR)$(PREFIX)/lib/libcuesta_preload.so
	install -D -m 644 bindings/cuesta.h $(DESTDIR)$(PREFIX)/include/cuesta.h
	install -D -m 644 bindings/cuesta.py $(DESTDIR)$(PREFIX)/share/cuesta/cuesta.py
	@mkdir -p $(DESTDIR)/sbin 2>/dev/null && ln -sf $(PREFIX)/bin/cuesta $(DESTDIR)/sbin/mount.fuse.cuesta || \
		echo "no helper for lines of /etc/fstab: only root can put it into /sbin"
