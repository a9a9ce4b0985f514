# Build, check and test SteadyFS. `make test` is what CI runs; it needs Debian (or a system where the tools it names are installed).

CARGO ?= cargo

.PHONY: build test lint deps bench-basic

# Results of `steadyfs lab` name the commit. An archive of the sources has none, unless it is told.
STEADYFS_COMMIT ?= $(shell git rev-parse --short HEAD 2>/dev/null)
build:
	STEADYFS_COMMIT=$(STEADYFS_COMMIT) $(CARGO) build --release

# Installs what `make build` built: the command, the links by which mount(8) and its like find it, the unit of systemd, manual pages and completions.
# Packages give DESTDIR and PREFIX=/usr. mount(8) and umount(8) look for helpers in SBINDIR only. Each link has a page of section 8: that of its command.
PREFIX ?= /usr/local
SBINDIR ?= /usr/sbin
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d
STEADYFS ?= target/release/steadyfs
SHARE = $(DESTDIR)$(PREFIX)/share
.PHONY: install uninstall
install:
	install -D -m 755 $(STEADYFS) $(DESTDIR)$(PREFIX)/bin/steadyfs
	install -D -m 644 service/steadyfs@.service $(DESTDIR)$(PREFIX)/lib/systemd/system/steadyfs@.service
	install -d $(DESTDIR)$(SBINDIR) $(SHARE)/man/man1 $(SHARE)/man/man8 $(SHARE)/bash-completion/completions $(DESTDIR)$(ZSHDIR) $(DESTDIR)$(FISHDIR)
	names=$$(mktemp -d) && $(STEADYFS) links $$names >/dev/null && for name in $$(ls $$names); do \
	  ln -sf $$(realpath -m --relative-to=$(SBINDIR) $(PREFIX)/bin/steadyfs) $(DESTDIR)$(SBINDIR)/$$name && \
	  echo ".so man1/steadyfs-$${name%%.*}.1" >$(SHARE)/man/man8/$$name.8 || exit; done && rm -r $$names
	$(STEADYFS) man --dir $(SHARE)/man/man1
	$(STEADYFS) completions bash >$(SHARE)/bash-completion/completions/steadyfs
	$(STEADYFS) completions zsh >$(DESTDIR)$(ZSHDIR)/_steadyfs
	$(STEADYFS) completions fish >$(DESTDIR)$(FISHDIR)/steadyfs.fish

# Removes what `make install` with the same variables installed.
uninstall:
	for name in $$(ls $(SHARE)/man/man8 | sed -n 's/\(.*\.steadyfs\)\.8$$/\1/p'); do rm -f $(DESTDIR)$(SBINDIR)/$$name $(SHARE)/man/man8/$$name.8; done
	rm -f $(DESTDIR)$(PREFIX)/bin/steadyfs $(DESTDIR)$(PREFIX)/lib/systemd/system/steadyfs@.service $(SHARE)/man/man1/steadyfs.1 \
	  $(SHARE)/man/man1/steadyfs-*.1 $(SHARE)/bash-completion/completions/steadyfs $(DESTDIR)$(ZSHDIR)/_steadyfs $(DESTDIR)$(FISHDIR)/steadyfs.fish

# What is given to others: docs/HACKING.md, "Releases". DIST is what the names of its files begin with.
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
MACHINE := $(shell uname -m)
DIST = target/release-artifacts/steadyfs-$(VERSION)-$(MACHINE)-linux
DISTBUILD = STEADYFS_COMMIT=$(STEADYFS_COMMIT) $(CARGO) build --locked --profile dist -p steadyfs
.PHONY: dist static deb deb-test package release
dist:
	$(DISTBUILD)
	tools/split-debug.sh target/dist/steadyfs $(DIST)

# The C library is linked in: this one runs in an empty directory.
static:
	RUSTFLAGS="-C target-feature=+crt-static" $(DISTBUILD) --target $(MACHINE)-unknown-linux-gnu
	tools/split-debug.sh target/$(MACHINE)-unknown-linux-gnu/dist/steadyfs $(DIST)-static
	tools/empty-root.sh $(DIST)-static

deb: dist
	CARGO=$(CARGO) tools/deb.sh $(DIST)

# Installs the package in a clean root, uses it, and removes it.
deb-test: deb
	tools/deb.sh --test

# The packages of crates.io, each built from itself alone. PACKAGE=--offline takes nothing from the network.
package:
	CARGO=$(CARGO) tools/package.sh $(PACKAGE)

# All of it for one version, with checksums; TAG=1 makes the tag.
release:
	CARGO=$(CARGO) tools/release.sh

# Installs the Debian packages that the tests use, if they are missing.
deps:
	tools/apt-deps.sh

# A compiler that lints what it compiles, for CI, which compiles all of it anyway: a word or two of the environment, as in .ci/run. Without it
# clippy runs apart, and `cargo test` finds what `make test` has built.
LINTING ?=

# Lints with such a compiler, or by clippy. The pages are made of what the same compiler has checked.
linted = $(if $(LINTING),$(LINTING) $(CARGO) check $(1),$(CARGO) clippy $(1) -- -D warnings)

# All that tests use has features of theirs in common; what ships, the command and the library alone, has its own.
lint:
	$(CARGO) fmt --all -- --check
ifeq ($(LINTING),)
	$(CARGO) clippy --workspace --all-targets -- -D warnings
endif
	$(call linted,-p steadyfs)
	$(call linted,-p steadyfs --lib --no-default-features)
	RUSTDOCFLAGS="-D warnings" $(LINTING) $(CARGO) doc --workspace --no-deps $(foreach crate,bench fuzzing testkit tidy,--exclude steadyfs-$(crate))

# Everything is built once, with the tests' features: a build of the command alone has others, and would make half of the crates a second time. The packages come
# while the compiler works, which needs none, and others' suites are compiled where the lints leave a core idle. They mostly wait for the kernel, so they run beside
# our tests, and print when they have ended. The closing lines of the tests are the closing lines of the run, unless a suite failed.
test:
	$(MAKE) --jobs=4 deps audited suites-installed built
	@log=$$(mktemp) && ( $(SUITES_SHORT) >$$log 2>&1; code=$$?; cat $$log; rm $$log; exit $$code ) & suites=$$!; \
	said=$$(mktemp); $(LINTING) CARGO=$(CARGO) tools/mutants.sh --sample 10 >$$said 2>&1; mutants=$$?; cat $$said; \
	$(LINTING) CARGO=$(CARGO) tools/tests.sh; tests=$$?; \
	[ $$mutants -eq 0 ] || { tail -n 30 $$said; echo "a vital line went unnoticed, or nobody knows (tools/mutants.sh)" >&2; tests=1; }; rm $$said; \
	wait $$suites || { echo "the suites (pjdfstest, fsx) failed: see above" >&2; exit 1; }; exit $$tests

# Holds dependencies against deny.toml: licences, bans, sources, advisories. `audited` is what CI runs of it: it compiles no cargo-deny, and names what
# it cannot have.
.PHONY: audit audited
audit:
	CARGO=$(CARGO) tools/audit.sh
audited:
	CARGO=$(CARGO) tools/audit.sh --cheap

# Runs tests without vital lines, one at a time, and expects them to fail: docs/MUTANTS.md. `make test` draws ten of them.
.PHONY: mutants
mutants:
	CARGO=$(CARGO) tools/mutants.sh

# All test programs, once the lints are content: whoever waits hears of a lint first.
.PHONY: built
built: lint
	$(LINTING) $(CARGO) test --workspace --no-run

SUITES_SHORT = STEADYFS=target/debug/steadyfs SEEDS="1 2 3 4 5 6 7 8 9 10" tools/suites.sh pjdfstest fsx

.PHONY: suites-installed
suites-installed:
	tools/suites.sh --install

# All tests with every case that `make test` samples; this takes some minutes more.
.PHONY: test-all
test-all: deps
	STEADYFS_TEST_ALL=1 CARGO=$(CARGO) tools/tests.sh

# pjdfstest and fsx alone. Needs root.
.PHONY: suites-short
suites-short: deps
	$(CARGO) build -p steadyfs
	$(SUITES_SHORT)

# Our mount, the library, ext4 and XFS in one run: docs/BENCHMARKS.md. As root; BENCH=--short does a quarter of it.
bench-basic:
	$(CARGO) build --release -p steadyfs-bench
	target/release/steadyfs-bench --goals $(BENCH)

# How long operations wait for checkpoints that have much to write: docs/BENCHMARKS.md.
.PHONY: bench-checkpoint
bench-checkpoint:
	$(CARGO) run --release -p steadyfs-bench --bin checkpoint-waits

# Programs that make names last, with the metadata journal, without it, on ext4 and on XFS, in one run: docs/BENCHMARKS.md. As root; BENCH=--short
# does a third of it.
.PHONY: bench-journal
bench-journal:
	$(CARGO) build --release -p steadyfs-bench
	target/release/steadyfs-bench journal --goals $(BENCH)

# Programs that people run, on our mount, ext4 and XFS, in one run: docs/BENCHMARKS.md. As root; those that are not installed are left out and named.
# BENCH=--short does a quarter of it.
.PHONY: bench-real
bench-real:
	$(CARGO) build --release -p steadyfs-bench
	target/release/steadyfs-bench real --goals $(BENCH)

# What a user waits while others on the same mount mean harm: docs/BENCHMARKS.md. As root; fails if a bound is broken. BENCH=--short does a quarter.
.PHONY: bench-hostile
bench-hostile:
	$(CARGO) build --release -p steadyfs-bench
	target/release/steadyfs-bench hostile $(BENCH)

# Our checker and fsck.f2fs on one volume with a million files, in one run. Needs 12 GiB of room in /dev/shm at most, 5 in fact.
.PHONY: bench-fsck
bench-fsck:
	$(CARGO) build --release -p steadyfs-bench
	target/release/steadyfs-bench fsck $(BENCH)

# Overwriting while garbage is collected, ours and the real F2FS, images in memory and on disk: docs/BENCHMARKS.md. As root; BENCH=--short is smaller.
.PHONY: bench-gc
bench-gc:
	$(CARGO) build --release -p steadyfs-bench
	target/release/steadyfs-bench gc --goals $(BENCH)

# Others' suites on a mount, by hand: pjdfstest, fsx with more seeds, and stress-ng. Needs root and the package stress-ng.
.PHONY: suites
suites: build
	tools/suites.sh

# 24 writers on a volume kept 95 % full, with 32 collectors, for ten minutes; contents compared, then both checkers and Linux look. SOAK=--mount goes
# through a mount, as root.
.PHONY: soak
soak:
	$(CARGO) run --release -p steadyfs-bench --bin soak -- $(SOAK)
