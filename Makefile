SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help
.PHONY: help build format static workflows platforms release released same-bytes vulnerabilities modules tally test verify check older up down demo walk rotate faults soak idle day attacks fuzz bench bench-e2e load docs clean ground

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 1m
FUZZPARALLEL ?= 0
E2E := cd e2e &&
TOOLS := cd tools &&
# All that is built and tested here has the same flags, so that product, tests and the programs that
# they run share each package that they compile. Nothing is debugged by line: without DWARF,
# compiling takes a fifth less. e2e/ground/build.go says the same.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false -gcflags=all=-dwarf=false
GROUND_COMMAND := .cache/ground-command
# For up, down and demo: GROUND=node (where it can run) or controlplane, K8S=1.37, 1.36 or 1.35,
# HELM=3 or 4. The first is the default. On a control plane also API_SERVERS=3, or as many others.
export GROUND K8S HELM API_SERVERS

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/pillion, the command line, with the links that make it a plugin of kubectl; bin/pillion-webhook, the server, and bin/licenses, the licences of all that is linked into it; bin/pillion-fn and bin/pillion-import
	@.ci/compile Pillion bin/ -ldflags "-s -w -X main.version=$(VERSION)" ./cmd/pillion ./cmd/pillion-webhook
	@$(TOOLS) ../.ci/compile 'the tools' ../bin/ -ldflags "-s -w -X main.version=$(VERSION)" ./cmd/pillion-fn ./cmd/pillion-import
	@ln -sf pillion bin/kubectl-pillion && ln -sf pillion bin/kubectl_complete-pillion
	@for program in pillion pillion-webhook; do echo "bin/$$program: $$(( $$(wc -c < bin/$$program) / 1024 )) KiB"; done
	@.ci/licences bin/licenses ./cmd/pillion-webhook

format:
	@unformatted=$$(git ls-files -z --cached --others --exclude-standard -- '*.go' | xargs -0 gofmt -l); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi

static: format
	go vet ./...
	$(TOOLS) go vet ./...
	$(E2E) go vet ./...
	go tool staticcheck ./...
	staticcheck=$$(go tool -n staticcheck) && for module in tools e2e; do (cd $$module && "$$staticcheck" ./...) || exit 1; done

# Where the database of known vulnerabilities cannot be reached, this is said, and is no failure.
vulnerabilities:
	@govulncheck=$$(go tool -n govulncheck); for module in . tools; do \
	  code=0; said=$$(cd $$module && "$$govulncheck" -db "$${GOVULNDB:-https://vuln.go.dev}" ./... 2>&1) || code=$$?; echo "$$said"; \
	  if [ $$code = 1 ] && grep -q 'fetching vulnerabilities' <<<"$$said"; then echo 'govulncheck is left out: its database cannot be reached'; elif [ $$code != 0 ]; then exit $$code; fi; done

# The modules of what is built later are fetched while the first packages are compiled.
modules:
	@(cd e2e/kubernetes/v1.37 && go list -deps k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kubectl}; \
	  cd ../etcd && go list -deps .; cd ../../helm/v3 && go list -deps helm.sh/helm/v3/cmd/helm) >/dev/null 2>&1 </dev/null &

tally:
	@cd .ci/tools/tests && ../../compile 'the reporter of tests' ../../../.cache/tools/ tool

# Fourteen stories, a file each: what would be missed first if it broke. They are told on one control
# plane, and all other end-to-end tests by make verify.
STORIES := inject reinvocation required forged guard label install uninstall rotation rights preview explain rollout readme
STORY_TESTS = ^($(shell cd e2e && awk -F '[ [:punct:]]' '/^func Test/ && !/^func TestOnANode/ {print $$2}' $(STORIES:%=%_test.go) | sort | paste -sd '|'))$$
CONTROLPLANE := GROUND=controlplane K8S=1.37 HELM=3
HELM4 := GROUND=controlplane K8S=1.37 HELM=4
OLDER := GROUND=controlplane K8S=1.35 HELM=3
NODE := GROUND=node K8S=1.37 HELM=4
SEVERAL := API_SERVERS=3 $(CONTROLPLANE)
HAS_NODE = $(filter node,$(shell $(GROUND_COMMAND) kinds))
# On other versions: what is about the version itself, and, besides the installation that all tests
# share, a pod that gets its sidecar, and an upgrade.
SMOKE := ^(TestAnUpgradeWithOtherValuesTakesEffectAndARollbackTakesItBack|TestPillionIsCalledForWhoAsksAndForNobodyElse|TestExplainSaysHowAPodOfTheClusterStandsAndWhy|TestPodsCannotOptOutOfARequiredTemplate|TestFieldsOfEachVersionPassThroughUntouched)$$
HELM4_TESTS := ^(TestTheRemediesOfCheckBringTheReleaseBack|TestAnUpgradeThatDropsATemplateThatNamespacesNameIsRefusedAndChangesNothing|TestASuspensionByHandOutlivesAnUpgrade|TestACRDThatIsDeletedBeforeTheReleaseIsBroughtBackAndTheReleaseRemoved|TestAfterUninstallNothingBlocksAPodAndAReinstallWorks|TestAnotherFieldManagerMayAddToTheSelectors)$$
NODE_TESTS := ^TestOnANode
E2E_TESTS := . -count=1 -timeout=30m

# Programs that the tests run are built before them: go test would count it as their time, and some
# are about how soon something happens.
test: modules format ground tally ## unit and property tests, and fourteen stories on a Kubernetes of its own; the last line counts
	@$(CONTROLPLANE) $(GROUND_COMMAND) programs
	@.ci/tally 'unit and property tests' . ./... \
	  -- 'the importers, the function and the site' tools ./... \
	  -- 'stories on a control plane' $(CONTROLPLANE) e2e $(E2E_TESTS) -parallel=4 -run='$(STORY_TESTS)'

verify: ground tally static vulnerabilities workflows same-bytes platforms ## the rest: race detector, static checks, other versions, cert-manager, alerts, a node; the last line counts
	@.ci/before
	@$(CONTROLPLANE) $(GROUND_COMMAND) programs cert-manager prometheus
	@$(HELM4) $(GROUND_COMMAND) programs
	@$(OLDER) $(GROUND_COMMAND) programs
	@$(if $(HAS_NODE),$(NODE) $(GROUND_COMMAND) programs)
	@.ci/tally 'unit and property tests with the race detector' CGO_ENABLED=1 . -race ./... \
	  -- 'the importers, the function and the site with the race detector' CGO_ENABLED=1 tools -race ./... \
	  -- 'the tools of the tests' e2e -count=1 ./cmd/... ./dashboard/... ./faults/... ./ground/... ./measure/... ./readme/... ./registry/... \
	  -- 'the rest on a control plane' $(CONTROLPLANE) e2e $(E2E_TESTS) -parallel=4 -skip='$(STORY_TESTS)' \
	  -- 'with several API servers' $(SEVERAL) e2e $(E2E_TESTS) -run='^TestWithSeveralAPIServers' \
	  -- 'with Helm 4' $(HELM4) e2e $(E2E_TESTS) -run='$(HELM4_TESTS)' \
	  -- 'on Kubernetes 1.35' $(OLDER) e2e $(E2E_TESTS) -run='$(SMOKE)' \
	  $(if $(HAS_NODE),-- 'on a node' $(NODE) e2e $(E2E_TESTS) -run='$(NODE_TESTS)')

check: static ## format, vet, staticcheck and unit tests: no Kubernetes
	go test ./...
	$(TOOLS) go test ./...

older: ground tally released ## all end-to-end tests on the oldest Kubernetes that is tested, 1.35
	@$(OLDER) $(GROUND_COMMAND) programs
	.ci/tally 'on Kubernetes 1.35' $(OLDER) e2e $(E2E_TESTS)

# Where it runs is Linux; what it makes is for all platforms.
DIST ?= dist
export PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
release: ## VERSION=v0.1.0: archives, images, chart, CRDs, SBOMs and checksums in DIST (dist); the same commit gives the same bytes
	@cd .ci/tools/release && ../../compile 'the tools of releases' ../../../.cache/tools/ -ldflags '-s -w' tool
	@$(E2E) go build -o ../$(GROUND_COMMAND) ./cmd/ground
	@.ci/release $(VERSION) $(DIST)

# What the tests install from.
CHART_VERSION = v$(shell sed -n 's/^version: //p' charts/pillion/Chart.yaml)
released: VERSION = $(CHART_VERSION)
released: release

# A copy of the sources in another folder, with other modes, gives the same bytes: here in an archive of each kind,
# in images and chart. Only checksums and krew's manifest name archives of all platforms.
same-bytes: COPY := .cache/copy
same-bytes: released
	@rm -rf $(COPY) && mkdir -p $(COPY) && cp -r .git $(COPY)
	@umask 077; git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --no-preserve=mode -t $(COPY)
	@chmod +x $(COPY)/.ci/*; umask 077; $(MAKE) --no-print-directory -C $(COPY) release VERSION=$(CHART_VERSION) PLATFORMS='linux/arm64 windows/amd64'
	diff -r -x checksums.txt -x krew -x '*_darwin_*' -x '*_*_linux_amd64*' -x '*_windows_arm64*' $(DIST) $(COPY)/dist
	@rm -rf $(COPY)

# Product and tests compile for every platform of a release. Nothing is linked.
platforms:
	@for p in $(filter-out linux/amd64,$(PLATFORMS)); do echo "compiling for $$p"; GOOS=$${p%/*} GOARCH=$${p#*/}; export GOOS GOARCH; for module in . tools; do (cd $$module && go list -test -export ./... >/dev/null) || exit 1; done; done

workflows:
	cd .ci/tools/workflows && go build -o ../../../.cache/tools/ tool
	.cache/tools/actionlint -shellcheck= -pyflakes=

ground: build
	@$(E2E) ../.ci/compile 'the ground of the tests' ../$(GROUND_COMMAND) ./cmd/ground

up: ground ## a real Kubernetes with Pillion installed, left running; prints how to use it
	@$(GROUND_COMMAND) up

down: ## remove what `make up` left running, without a trace
	@$(E2E) go build -o ../$(GROUND_COMMAND) ./cmd/ground
	@$(GROUND_COMMAND) down

demo: modules ground ## on a Kubernetes of its own: annotate, inject, override, opt out, explain; then remove it
	@GROUND=$(or $(GROUND),controlplane) $(GROUND_COMMAND) demo

walk: ground ## the commands of the README and of the pages that follow it, as they stand there, on control planes of their own; then remove them
	@$(GROUND_COMMAND) walk

rotate: build ## certificates replaced and damaged under load, on a Kubernetes of its own; the last line counts
	@$(E2E) go build -o ../.cache/faults ./cmd/faults
	@.cache/faults -rotate

faults: build ## faults under load, on a node of its own: a line FAULT <name> tried=<n> refused=<n> wrong=<n> bare=<n> p99_ms=<x> recovered_ms=<x> each; FAULT=REGEXP chooses
	@$(E2E) go build -o ../.cache/faults ./cmd/faults
	@.cache/faults -only '$(FAULT)'

SOAK ?= 10m
SEED ?= 1
soak: build ## faults at random for SOAK (10m), up to three at once, on a Kubernetes of its own: SEED=1 chooses them; FAULT=REGEXP among them; the last line counts
	@mkdir -p .cache/clock/ahead .cache/clock/behind; src=$$(go env GOROOT)/src/time; sed 's/sec, nsec, mono := runtimeNow()/&; sec += clockOff/' $$src/time.go >.cache/clock/time.go; \
	  if cmp -s $$src/time.go .cache/clock/time.go; then echo "$$src/time.go has no place to turn the clock"; exit 1; fi; \
	  printf '{"Replace":{"%s":"%s","%s":"%s"}}' $$src/time.go $(CURDIR)/.cache/clock/time.go $$src/clock.go $(CURDIR)/e2e/faults/testdata/clock.go >.cache/clock/overlay.json
	@.ci/compile 'a Pillion whose clock is an hour off' .cache/clock/ahead/pillion-webhook -overlay .cache/clock/overlay.json -ldflags '-s -w' ./cmd/pillion-webhook
	@ln -f .cache/clock/ahead/pillion-webhook .cache/clock/behind/pillion-webhook
	@$(E2E) go build -o ../.cache/faults ./cmd/faults
	@.cache/faults -soak $(SOAK) -clocks $(CURDIR)/.cache/clock -seed $(SEED) -only '$(FAULT)'

NAMESPACES ?= 10000
DAY ?= 10m
PODS ?= 100000
idle: ## what Pillion takes of memory in a cluster of NAMESPACES (10000) and TEMPLATES (100), on a Kubernetes of its own
idle: TEMPLATES ?= 100
idle: PODS := 0
day: ## the same with TEMPLATES (200), and then a day of that cluster in DAY (10m): PODS (100000) made and deleted, memory, events, requests and etcd's growth; the last line counts
day: TEMPLATES ?= 200
idle day: ground
	@$(CONTROLPLANE) $(GROUND_COMMAND) programs
	@$(E2E) go build -o ../.cache/day ./cmd/day
	@$(CONTROLPLANE) .cache/day -namespaces $(NAMESPACES) -templates $(TEMPLATES) -pods $(PODS) -day $(DAY)

ATTACK ?= 4s
attacks: ground ## what hostile loads take of memory and time, ATTACK=4s each; a line for each attack
	@$(E2E) ATTACK=$(ATTACK) GROUND=controlplane HELM=3 go test . -count=1 -v -timeout=20m -run '^(TestNoLoadTakesTheProcessPastItsMemory|TestLargeNamespacesTakeTheProcessNotPastItsMemory)$$' \
	  | sed -nE 's/^=== ATTR +[^ ]+ attack /ATTACK /p; /^ +[a-z_]+\.go:|^(---|FAIL|ok)/p'

fuzz: ## every fuzz target for FUZZTIME (1m): a line FUZZ <target> execs=<n> found=<n> each; FUZZ=REGEXP chooses
	@.ci/fuzz '$(FUZZTIME)' '$(FUZZPARALLEL)' '$(FUZZ)'

bench: ## what an admission costs: a line BENCH <name> ratio=<x> target=<y> each
	go test -run '^$$' -bench '^BenchmarkCost$$' -benchtime=1x ./webhook | grep -E '^(BENCH|FAIL|---)'

ROUNDS ?= 1000
BENCH_TEMPLATES ?= 0
bench-e2e: build ## what Pillion adds to a pod's creation through kube-apiserver, beside fixed webhooks and a policy: ROUNDS=1000 pods each, with BENCH_TEMPLATES=0 templates for other pods
	@$(E2E) go build -o ../.cache/bench ./cmd/bench
	@.cache/bench -rounds $(ROUNDS) -templates $(BENCH_TEMPLATES)

LOAD ?= 60s
load: build ## 1,000 admissions a second for LOAD (60s), Pillion on one core; the last line has p99, errors and memory
	@$(E2E) go build -o ../.cache/load ./cmd/load
	@.cache/load -for $(LOAD)

docs: ## site, a folder with the web site of docs/; a link that leads nowhere fails
	@cd tools && go run ./cmd/site -root .. -out ../site

# Kubernetes and the other programs stay in the user's cache folder, for other clones, until nobody has
# used them for a month.
clean: down ## remove bin, dist, site and .cache
	rm -rf bin dist site .cache
