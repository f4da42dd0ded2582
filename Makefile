SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help
.PHONY: help build check static vulnerabilities test older newer image up down demo walk rotate faults idle attacks fuzz bench bench-e2e load clean ground

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 1m
FUZZPARALLEL ?= 0
E2E := cd e2e &&
# With the flags of the programs that are built here, packages are compiled once for all of them.
SHARED := CGO_ENABLED=0 GOFLAGS=-trimpath
GROUND_COMMAND := .cache/ground-command
# For up, down and demo: GROUND=node (where it can run) or controlplane, K8S=1.37 or 1.36,
# HELM=3 or 4. The first is the default.
export GROUND K8S HELM

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/pillion, a static binary, with the links that make it a plugin of kubectl, and bin/licenses, the licences of all that is linked into it
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/pillion ./cmd/pillion
	@ln -sf pillion bin/kubectl-pillion && ln -sf pillion bin/kubectl_complete-pillion
	@echo "bin/pillion: $$(( $$(wc -c < bin/pillion) / 1024 )) KiB"
	@$(E2E) go run ./cmd/licences -C .. -o ../bin/licenses ./cmd/pillion

static:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(SHARED) go vet ./...
	$(SHARED) go tool staticcheck ./...
	$(E2E) $(SHARED) go vet ./...
	staticcheck=$$($(SHARED) go tool -n staticcheck) && $(E2E) $(SHARED) "$$staticcheck" ./...

vulnerabilities:
	$(E2E) go build -o ../.cache/vulnerabilities ./cmd/vulnerabilities
	.cache/vulnerabilities ./...

check: static vulnerabilities ## format, vet, staticcheck, govulncheck (where its database is reached), unit and property tests: no Kubernetes
	$(E2E) go run ./cmd/tally .. -race ./...

# What is the same on a control plane and on a node is tested on the control plane only. That is
# what pods become through an API server, the tests that start clusters of their own, and those
# about processes and their memory.
ONCE := apirules_test beside_test bounds_test calls_test causes_test certs_test chain_test check_test created_test cutoff_test defaults_test demo_test deny_test evade_test examples_test explain_test fields_test files_test flood_test forged_test guard_test hostile_test \
  inject_test injection_test label_test large_test library_test \
  merge_test metrics_test mirror_test missing_test mistakes_test named_test owners_test preview_test reinvocation_test remedies_test required_test requiredpolicy_test rights_test schema_test security_test stolen_test system_test template_test templatechange_test upgrade_test used_test version_test
ONCE_TESTS = $(shell cd e2e && awk -F '[ [:punct:]]' '/^func Test/ {print $$2}' $(ONCE:%=%.go) | sort | paste -sd '|')
ONCE_OF_OTHERS := TestARollout.*|TestReplicasWriteOneStatusForEachChange|TestADeletedConfigurationCostsNoPodThatAnotherOneBrings|TestAReviewInFlightIsAnsweredWhileAReplicaStops|TestReplicasStartedTogetherAgreeOnOneCA|TestASecondInstallWithAnotherPrefixLivesBesideTheFirst|TestAStolenTokenCanRunNoPodInTheProofNamespace|TestFailuresOfProofsAreNamedAsTheAPIServerAnswersThem|TestARightTakenAwayLaterShowsInMetricsAndStatus
CONTROLPLANE := GROUND=controlplane K8S=1.37 HELM=3
# What is about Helm is tested with the other one, too, where the node's ground does not do it.
HELM4 := GROUND=controlplane K8S=1.37 HELM=4
HELM4_TESTS := TestTheRemediesOfCheckBringTheReleaseBack|TestTheUpgradeOfTheRunbookMakesAgainWhatIsGone|TestTheRollbackOfTheRunbookBringsTemplatesBack|TestCheckNamesAReleaseThatHelmBrokeOffAndItsRemedyFreesIt
NODE := GROUND=node K8S=1.37 HELM=4
HAS_NODE = $(filter node,$(shell $(GROUND_COMMAND) kinds))
OLDER := GROUND=controlplane K8S=1.36 HELM=3
E2E_TESTS := . -count=1 -timeout=30m
settings = $(subst $(subst ,, ),$(comma),$(1))
comma := ,
# Kubernetes and what else the end-to-end tests run is built before the tests: go test would count it
# as their time, and some are about how soon something happens.
test: ground static ## check, chart and end-to-end tests on every ground that can run here; the last line counts
	@$(GROUND_COMMAND) programs $(call settings,$(CONTROLPLANE)) $(call settings,$(HELM4)) $(if $(HAS_NODE),$(call settings,$(NODE)))
	@$(E2E) go run ./cmd/tally .. -race ./... -- $(SHARED) . -count=1 ./cmd/... ./dashboard/... ./ground/... ./measure/... ./readme/... ./registry/... \
	  -- $(SHARED) $(CONTROLPLANE) $(E2E_TESTS) -parallel=3 . \
	  -- $(SHARED) $(HELM4) $(E2E_TESTS) -run '^($(HELM4_TESTS))$$' . \
	  $(if $(HAS_NODE),-- $(SHARED) $(NODE) $(E2E_TESTS) -skip '^($(ONCE_TESTS)|$(ONCE_OF_OTHERS))$$' .)

older: ground ## the end-to-end tests on the oldest Kubernetes that is tested, 1.36
	@$(OLDER) $(GROUND_COMMAND) programs
	$(E2E) go run ./cmd/tally $(OLDER) $(E2E_TESTS) .

# Fields that API servers serve by themselves, and that no default of the API stands in.
CUT ?= clusterTrustBundle podCertificate restartPolicyRules hostnameOverride
newer: ground ## a Pillion that does not know CUT, fields of a pod, on a Kubernetes that serves them: they survive
	@$(E2E) go run ./cmd/cut ../.cache/cut $(CUT)
	CGO_ENABLED=0 go build -trimpath -overlay .cache/cut/overlay.json -o .cache/cut/pillion ./cmd/pillion
	$(E2E) PILLION=$(CURDIR)/.cache/cut/pillion go run ./cmd/tally GROUND=controlplane HELM=3 $(E2E_TESTS) -run '^TestFieldsOfEachVersionPassThroughUntouched$$' .

image: ground ## bin/pillion-image.tar, an OCI archive of the Dockerfile's image, by buildah
	@$(GROUND_COMMAND) image bin/pillion-image.tar

ground: build
	@$(E2E) $(SHARED) go build -o ../$(GROUND_COMMAND) ./cmd/ground

up: ground ## a real Kubernetes with Pillion installed, left running; prints how to use it
	@$(GROUND_COMMAND) up

down: ## remove what `make up` left running, without a trace
	@$(E2E) go build -o ../$(GROUND_COMMAND) ./cmd/ground
	@$(GROUND_COMMAND) down

demo: ground ## on a Kubernetes of its own: annotate, inject, override, opt out, explain; then remove it
	@$(GROUND_COMMAND) demo

walk: ground ## the README's commands as they stand there, on a control plane of its own; then remove it
	@$(GROUND_COMMAND) walk

rotate: build ## certificates replaced and damaged under load, on a Kubernetes of its own; the last line counts
	@$(E2E) go build -o ../.cache/rotate ./cmd/rotate
	@.cache/rotate

faults: build ## faults under load, on a node of its own: a line FAULT <name> tried=<n> refused=<n> wrong=<n> bare=<n> p99_ms=<x> recovered_ms=<x> each; FAULT=REGEXP chooses
	@$(E2E) go build -o ../.cache/faults ./cmd/faults
	@.cache/faults -only '$(FAULT)'

NAMESPACES ?= 10000
TEMPLATES ?= 1000
idle: build ## what Pillion takes of memory in a cluster of NAMESPACES (10000) and TEMPLATES (1000), on a Kubernetes of its own
	@$(E2E) go build -o ../.cache/idle ./cmd/idle
	@.cache/idle -namespaces $(NAMESPACES) -templates $(TEMPLATES)

ATTACK ?= 4s
attacks: ground ## what hostile loads take of memory and time, ATTACK=4s each; a line for each attack
	@$(E2E) ATTACK=$(ATTACK) GROUND=controlplane HELM=3 go test . -count=1 -v -timeout=20m -run '^(TestNoLoadTakesTheProcessPastItsMemory|TestLargeNamespacesTakeTheProcessNotPastItsMemory)$$' \
	  | sed -nE 's/^=== ATTR +[^ ]+ attack /ATTACK /p; /^ +[a-z_]+\.go:|^(---|FAIL|ok)/p'

fuzz: ## every fuzz target for FUZZTIME (1m): a line FUZZ <target> execs=<n> found=<n> each; FUZZ=REGEXP chooses
	$(E2E) go build -o ../.cache/fuzz ./cmd/fuzz
	.cache/fuzz -time $(FUZZTIME) -parallel $(FUZZPARALLEL) -only '$(FUZZ)'

bench: ## what an admission costs, and how that grows with the pod: a line BENCH <name> ratio=<x> target=<y> each
	go test -run '^$$' -bench '^BenchmarkCost$$' -benchtime=1x ./injector/webhook | grep -E '^(BENCH|FAIL|---)'
	go test -run '^$$' -bench '^BenchmarkGrowth$$' -benchtime=1x ./injector | grep -E '^(BENCH|FAIL|---)'
	go test -run '^$$' -bench '^BenchmarkPreview$$' -benchtime=1x ./cmd/pillion | grep -E '^(BENCH|FAIL|---)'

ROUNDS ?= 1000
bench-e2e: build ## what Pillion adds to a pod's creation through kube-apiserver, beside fixed webhooks and a policy: ROUNDS=1000 pods each
	@$(E2E) go build -o ../.cache/bench ./cmd/bench
	@.cache/bench -rounds $(ROUNDS)

LOAD ?= 60s
load: build ## 1,000 admissions a second for LOAD (60s), Pillion on one core; the last line has p99, errors and memory
	@$(E2E) go build -o ../.cache/load ./cmd/load
	@.cache/load -for $(LOAD)

clean: down ## remove bin and .cache, with the Kubernetes that was built
	rm -rf bin .cache
