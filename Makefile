# drover: what can be done here. `make` alone prints this list.
SHELL := /bin/sh
export CGO_ENABLED := 0

# A package is then compiled once for tests, programs and releases alike, and once for all clones of the repository on a machine.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

# The go command does not combine a workspace with another module file.
TOOL := GOWORK=off go tool -modfile=$(CURDIR)/tools/go.mod

.PHONY: help run build quick test test-rest test-deps race steady lint prose fmt generate house check fuzz chaos netns failover servers upgrade hostile browser scale bench bench-peers bench-fleet package agent-size release clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## run the main job: a server and one agent, on loopback, without configuration
	@echo "Building drover; the first time this takes about a minute."
	@go run ./cmd/drover dev

build: ## build bin/drover and bin/drover-agent
	go build -trimpath -o bin/ ./cmd/...

# The tests run on gotestsum, in the order of test/suite/plan.go. A package that falls runs once more, alone, at the end.
SUITE = go run ./test/suite

test: test-deps ## run the tests that a stranger needs, and install what they need: every package, the quick start, a short form of the rest (4 minutes)
	@$(SUITE) test

test-rest: test-deps ## run what make test leaves for later: the built program at length, races, fuzzing, cut links (12 minutes; as root, needs gcc)
	@$(SUITE) rest

N ?= 20
steady: test-deps ## run the tests with processes, servers or real time N times (20) beside two busy loops; goes on where it was stopped
	@$(SUITE) steady -n $(N)

# Results come from the cache if nothing changed. GOGC saves the linkers time; archtest asks the go command, which the cache cannot see. Some tests
# only wait, so more packages than processors are tested at once, and the package that waits most begins.
quick: ## run the tests that need neither root nor an installation (within a minute, once they are compiled)
	GOGC=400 go test -short -p 6 -ldflags='-w -s' ./internal/fabric/broker $$(go list ./client/... ./internal/... | grep -v /archtest$$)
	go test -count 1 ./internal/archtest

test-deps: ## install the real daemons that the tests supervise (as root), or say what is missing
	@tools/test-deps.sh

race: ## run the tests of one process at a time under the race detector (needs gcc)
	@$(SUITE) race

lint: prose ## check the rules of the code and of the English
	$(TOOL) golangci-lint run ./...
	cd test && $(TOOL) golangci-lint run ./...
	cd tools/pack && $(TOOL) golangci-lint run ./...

# Vale has parsers in C, so go needs gcc to build it; the first time this takes about half a minute.
prose: ## check the English of README.md, CHANGELOG.md, docs/ and changes/ by STYLE.md (needs gcc)
	@if command -v gcc >/dev/null; then \
		CGO_ENABLED=1 $(TOOL) vale --output=line --glob='!docs/zh/**' README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs changes; \
	else echo "LEFT OUT: the check of the English, which needs gcc" >&2; fi

fmt: ## format the code
	$(TOOL) golangci-lint fmt ./...

generate: ## make the generated files again
	go generate work

house: ## print the largest packages, files, types and structs: places to look at, no limits
	@go run ./internal/house

check: lint ## what .ci/run checks beside the tests
	@go run ./internal/statesdoc | diff -u docs/states.md - || { echo "docs/states.md is old: run make generate"; exit 1; }
	@go run ./internal/zhdocs
	@go mod tidy -diff
	@go -C test mod tidy -diff

INPUTS ?= 50000
T ?= 30s
fuzz: ## run every fuzz target with INPUTS inputs (50000), and send the binary mutated calls for T (30s); DROVER_CHAOS_SEED repeats the latter
	@tools/fuzz.sh $(INPUTS)
	DROVER_CHAOS_TIME=$(T) go test -v -count 1 -timeout 60m ./test/fuzz/

CHAOS ?= 10m
chaos: ## kill, crash and restart at random for CHAOS (10m), and every fault in its long form; DROVER_CHAOS_SEED repeats a run
	DROVER_CHAOS_TIME=$(CHAOS) go test -v -count 1 -timeout 60m ./test/faults/
	@if [ "$$(id -u)" -eq 0 ]; then $(MAKE) netns NETNS=$(CHAOS); else echo "LEFT OUT: faults between hosts, which take root"; fi

NETNS ?= 1m
netns: test-deps ## cut links and kill parts of a fleet of network namespaces, at random for NETNS (1m), or the tests that RUN names (as root)
	DROVER_CHAOS_TIME=$(NETNS) go test -v -count 1 -timeout 60m $(if $(RUN),-run '$(RUN)') ./test/netns/

FAILOVER ?= 60s
failover: ## end the primary of a PostgreSQL pair again and again for FAILOVER (60s), with drover at work over it
	DROVER_CHAOS_TIME=$(FAILOVER) go test -v -count 1 -timeout 10m ./test/failover/

SERVERS ?= 5m
servers: ## kill servers and NATS brokers of a fleet with several at random for SERVERS (5m), while callers operate
	DROVER_CHAOS_TIME=$(SERVERS) go test -v -count 1 -timeout 60m ./test/servers/

UPGRADE ?= 1m
upgrade: ## replace the agent of 1,000 processes by another version and back, again and again for UPGRADE (1m)
	DROVER_CHAOS_TIME=$(UPGRADE) go test -v -count 1 -timeout 60m ./test/upgrade/

HOSTILE ?= 10m
hostile: ## have 256 agents' keys, an app, a person, 400 strangers and an account attack a fleet at work for HOSTILE (10m), and compare the times of good calls (as root, on a quiet machine)
	DROVER_CHAOS_TIME=$(HOSTILE) go test -v -count 1 -timeout 60m ./test/hostile/

BROWSER ?= 10m
browser: test-deps ## test the console in chromium in the long form: a fleet of 100,000 processes, tabs that are open for BROWSER (10m), and pictures of all pages in test/browser/artefacts
	DROVER_CHAOS_TIME=$(BROWSER) go test -v -count 1 -timeout 90m -run TestManyPeople ./test/browser/
	DROVER_CHAOS_TIME=$(BROWSER) go test -v -count 1 -timeout 90m -skip TestManyPeople ./test/browser/

scale: build ## measure a server with as many agents as this machine lets connect, beside bare NATS; writes bench/results (as root; half an hour)
	go run ./test/scale -out bench/results
	go run ./test/bench/table -w

bench: ## measure drover against the least that any program could do; writes bench/results (as root, needs gcc; 25 minutes)
	go run ./test/bench/floor -out bench/results
	go run ./test/bench/table -w

PEERS ?= /var/tmp/drover-peers
bench-peers: ## measure drover beside other supervisors, which it installs (as root on Debian; 35 minutes)
	tools/bench-deps.sh $(PEERS)
	go run ./test/bench/peers -peers $(PEERS) -out bench/results
	go run ./test/bench/table -w

bench-fleet: build ## measure drover beside clush, pdsh, parallel-ssh and Ansible on up to 500 hosts of this machine, and installs them (as root on Debian; 25 minutes)
	tools/apt-install.sh openssh-server clustershell pdsh pssh ansible-core
	go run ./test/bench/fleet -out bench/results
	go run ./test/bench/table -w

# A release says VERSION=1.2.3; else the commit does.
VERSION ?= $(shell git log -1 --date=format:%Y%m%d%H%M%S --format='0.0.0~%cd.%h')
package: ## build packages (deb, rpm, archive), images and SBOMs for amd64 and arm64 into dist/; VERSION=1.2.3 for a release, RPM_KEY=FILE signs rpms
	@go run ./internal/zhdocs --all
	rm -rf dist
	tools/package.sh '$(VERSION)' amd64 dist
	tools/package.sh '$(VERSION)' arm64 dist

agent-size: ## tell what the packaged agents consist of
	@tools/agent-size.sh amd64
	@tools/agent-size.sh arm64

release: ## make a release: the notes of changes/unreleased go into CHANGELOG.md, commit, tag, 'make package', signature by KEY; VERSION=1.2.3 KEY=FILE
	tools/release.sh --key '$(abspath $(KEY))' '$(VERSION)'

clean: ## remove what was built
	rm -rf bin dist
