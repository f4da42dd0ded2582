SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help
.PHONY: help build check static test up down demo fuzz bench clean ground

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 1m
E2E := cd e2e &&
GROUND_COMMAND := .cache/ground-command
GROUND ?= controlplane
K8S ?= 1.36

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/pillion, a static binary
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/pillion ./cmd/pillion

static:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	$(E2E) go vet ./...
	staticcheck=$$(go tool -n staticcheck) && $(E2E) "$$staticcheck" ./...

check: static ## format, vet, staticcheck, unit and property tests: no Kubernetes
	$(E2E) go run ./cmd/tally .. -race ./...

test: build static ## check, chart and end-to-end tests on a real kube-apiserver; the last line counts
	$(E2E) go run ./cmd/tally .. -race ./... -- . -count=1 -timeout=30m ./...

ground: build
	@[ "$(GROUND)" = controlplane ] || { echo "GROUND=$(GROUND): the only ground there is yet is controlplane"; exit 1; }
	@[ "$(K8S)" = 1.36 ] || { echo "K8S=$(K8S): the only version there is yet is 1.36"; exit 1; }
	@$(E2E) go build -o ../$(GROUND_COMMAND) ./cmd/ground

up: ground ## a real Kubernetes with Pillion installed, left running; prints how to use it
	@$(GROUND_COMMAND) up

down: ## remove what `make up` left running, without a trace
	@$(E2E) go build -o ../$(GROUND_COMMAND) ./cmd/ground
	@$(GROUND_COMMAND) down

demo: ground ## on a Kubernetes of its own: annotate, inject, override, opt out, explain; then remove it
	@$(GROUND_COMMAND) demo

fuzz: ## every fuzz target for FUZZTIME (1m)
	$(E2E) go build -o ../.cache/fuzz ./cmd/fuzz
	.cache/fuzz -time $(FUZZTIME)

bench: ## Go benchmarks
	go test -run '^$$' -bench . -benchmem ./...

clean: down ## remove bin and .cache, with the Kubernetes that was built
	rm -rf bin .cache
