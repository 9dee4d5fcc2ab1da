# Run `make help` for what there is.
SHELL := /bin/bash
TOOLS := .tools
BUF := $(TOOLS)/buf
LINT := $(TOOLS)/golangci-lint
TOOL_MODULES := protoc buf lint grpcurl vuln
OPENAPI := api/openapi/generated/coordsvc.swagger.json
FUZZTIME ?= 20s
PROMTOOL ?= promtool
KAFKA_VERSIONS ?= 0.8.2.2,0.9.0.1,0.10.1.1,0.10.2.2,1.1.1,2.3.1,2.4.1,2.8.2,3.0.2,3.7.2,3.9.2,4.4.0

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-19s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/coordsvc
	CGO_ENABLED=0 go build -trimpath -o bin/coordsvc ./cmd/coordsvc

.PHONY: test
test: ## Run the tests that need nothing but Go
	go test ./...

.PHONY: test-race
test-race: ## Run the same tests under the race detector, without the test cache
	go test -race -count=1 ./...

.PHONY: test-kafka
test-kafka: ## Run the tests on real Apache Kafka (Java, Maven; 12 min); KAFKA_VERSIONS=4.4.0,... narrows
	@skipped=$$(mktemp); trap 'rm -f '$$skipped EXIT; \
	KAFKATEST_REAL=1 KAFKATEST_REQUIRED=1 KAFKATEST_SKIPPED=$$skipped KAFKA_VERSIONS=$(KAFKA_VERSIONS) \
	  go test $(GOTESTFLAGS) -count=1 -p 1 -timeout 30m -run Kafka ./internal/kafkatest/... ./test/...; status=$$?; \
	if [ -s $$skipped ]; then echo "skipped:"; cat $$skipped; else echo "nothing was skipped"; fi; exit $$status

.PHONY: test-kafka-table
test-kafka-table: ## Ask all releases of Kafka, and write what came of it into README.md
	KAFKATEST_REAL=1 KAFKATEST_REQUIRED=1 go test -count=1 -timeout 30m -run '^TestKafkaLookups$$' ./test -update-releases

.PHONY: bench-rest
bench-rest: ## Compare what a call costs by REST and by gRPC (twice at the most), and print what refusals cost
	COORDSVC_TEST_COST=1 go test -count=1 -v -run '^TestCost' ./test

.PHONY: test-docs-page
test-docs-page: ## Make a lookup from /docs in headless Chromium (CHROMIUM=chromium)
	COORDSVC_TEST_CHROMIUM=$${CHROMIUM:-chromium} go test -count=1 -v -run '^TestDocsPage$$' ./test

.PHONY: test-rest
test-rest: build ## Have schemathesis (Python) search the REST API for answers that /openapi.json does not allow
	bash tools/schemathesis/run

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (20s)
	@set -e; go list ./... | while read -r pkg; do \
	  for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$f in $$pkg"; out=$$(go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 200x $$pkg 2>&1) || { echo "$$out"; exit 1; }; \
	  done; done

.PHONY: simulation
SEEDS ?= 2000
simulation: ## Play SEEDS (2000) simulated plans, or replay one: SEED=N
	go test ./internal/simulation -run TestSimulation $(if $(SEED),-seed=$(SEED) -v,-simulation.seeds=$(SEEDS)) -count=1

.PHONY: test-alerts
test-alerts: ## Check and test the Prometheus alerts (promtool, of Debian's package prometheus)
	$(PROMTOOL) check rules deploy/prometheus/coordsvc.rules.yaml
	$(PROMTOOL) test rules deploy/prometheus/coordsvc.rules.test.yaml

CHART := deploy/helm/coordsvc
.PHONY: chart-test
chart-test: ## Check the Helm chart in every way: offline, in rolling updates, in real API servers
	$(MAKE) chart-test-offline test-rollout chart-test-server

# What looks at objects runs on the types of the newest release of Kubernetes, and on those of the oldest in support.
.PHONY: chart-test-offline
chart-test-offline: $(TOOLS)/helm4 $(TOOLS)/helm3 $(TOOLS)/.built ## Check the Helm chart offline, with Helm 4 and 3: lint, render, types, Pod Security, wrong values, notes
	cd deploy/helm/test && go vet ./... && go test $(GOTESTFLAGS) -count=1 -timeout 20m ./... && go test $(GOTESTFLAGS) -count=1 -modfile=oldest.mod -run '^Test(Objects|PodSecuritySeesFaults|DecodingIsStrict)$$' .

.PHONY: test-rollout
test-rollout: $(TOOLS)/helm4 ## Play rolling updates with the times of the rendered chart, and count lost calls (4 min)
	@rendered=$$(mktemp); trap 'rm -f '$$rendered EXIT; \
	$(TOOLS)/helm4 template coordsvc $(CHART) --values $(CHART)/ci/plain-values.yaml >$$rendered && \
	COORDSVC_CHART_RENDERED=$$rendered go test $(GOTESTFLAGS) -count=1 -run '^TestRollout$$' ./test

.PHONY: kubernetes
kubernetes: ## Build Kubernetes 1.37 and 1.34 out of Go modules, once, into ~/.cache/coordsvc/kubernetes (many minutes)
	tools/kubernetes/build 1.37 1.34 kwok crds

.PHONY: chart-test-server
chart-test-server: $(TOOLS)/helm4 $(TOOLS)/helm3 kubernetes ## Install the chart into real API servers of Kubernetes 1.37 and 1.34, with Helm 4 and 3
	cd deploy/helm/servertest && go test $(GOTESTFLAGS) -count=1 -timeout 20m

.PHONY: bench-codec
bench-codec: ## Time the wire layer beside kmsg
	go test -run '^$$' -bench . -benchmem ./kafkawire

.PHONY: bench
bench: ## Measure coordsvc beside kadm, kgo and the rest, and write docs/performance.md (Java, Maven; 12 min)
	cd bench && go run . -o ../docs/performance.md -readme ../README.md $(BENCHFLAGS)

.PHONY: bench-scaling
bench-scaling: ## Measure 1, 2 and 4 instances on real Kafka, and write the table of docs/scaling.md (2 min)
	cd bench && go run . -scaling ../docs/scaling.md $(BENCHFLAGS)

.PHONY: bench-smoke
bench-smoke: ## Run every benchmark for a moment on stub brokers; fails on a wrong answer, never for a time
	cd bench && go vet . && go test . && go run . -smoke >/dev/null

.PHONY: image
image: ## Make the container image for amd64 and arm64 in dist; no container engine is needed
	go run -C tools/release . image

.PHONY: test-image
test-image: ## Check the image and run it in an empty folder (as root)
	go test -C tools/release -count=1 -v -run '^TestImage$$' .

.PHONY: release
release: ## Make all that a release has in dist: image, chart, archives, deb, rpm, SBOM, checksums
	go run -C tools/release . all

.PHONY: test-release
test-release: $(TOOLS)/helm4 ## Check the release: install, upgrade and purge the deb, run the unit's command (as root; zsh, fish, rpm, man)
	go test -C tools/release -count=1 -v -run '^TestRelease$$' .

.PHONY: generate
generate: $(TOOLS)/.built ## Make api/gen and api/openapi from api/proto, the generated docs, the chart's schema and README
	$(BUF) generate
	sed -i 's/^      "description": "FindCoordinatorsRequest names keys of one type.",$$/&\n      "additionalProperties": false,/' $(OPENAPI) # the plugin has no option for it
	go test -run 'Docs|Markdown|Documentation' ./internal/config ./service ./internal/telemetry -update
	cd deploy/helm/test && go test ./generate -update

.PHONY: check-generated
check-generated: generate ## Fail if anything generated is not as committed
	@git diff --exit-code -- api docs deploy || { echo "generated files differ from what is committed: run make generate"; exit 1; }
	@test -z "$$(git status --porcelain -- api docs deploy)" || { git status --short -- api docs deploy; echo "generated files are not committed"; exit 1; }

.PHONY: lint
lint: $(TOOLS)/.built ## Lint Go and the .proto, and refuse a contract that breaks callers
	for module in . bench deploy/helm/test deploy/helm/servertest tools/release; do \
		(cd $$module && $(CURDIR)/$(LINT) run ./...) || exit 1; done
	$(BUF) lint
	$(BUF) breaking --against api/released.binpb

.PHONY: vuln
vuln: $(TOOLS)/.built ## Scan for known vulnerabilities (govulncheck); says so where no database can be reached
	bash tools/vuln/run

.PHONY: release-contract
release-contract: $(TOOLS)/.built ## Record the API as it is as what must not break
	$(BUF) build -o api/released.binpb

.PHONY: tools
tools: $(TOOLS)/.built $(TOOLS)/helm4 $(TOOLS)/helm3 ## Build the pinned developer tools into .tools

$(TOOLS)/.built: $(foreach m,$(TOOL_MODULES),tools/$(m)/go.mod tools/$(m)/go.sum)
	@for m in $(TOOL_MODULES); do echo "building the tools of tools/$$m"; go build -C tools/$$m -trimpath -o ../../$(TOOLS)/ tool || exit 1; done
	@touch $@

# Helm knows its own version, and Helm 3 the newest Kubernetes, only if it is told when it is linked.
KUBE_MINOR := 37
HELM3_KUBE := $(foreach p,pkg/chartutil pkg/lint/rules,-X helm.sh/helm/v3/$(p).k8sVersionMajor=1 -X helm.sh/helm/v3/$(p).k8sVersionMinor=$(KUBE_MINOR))
$(TOOLS)/helm4 $(TOOLS)/helm3: $(TOOLS)/helm%: tools/helm%/go.mod tools/helm%/go.sum
	go build -C tools/helm$* -trimpath -o ../../$@ \
	  -ldflags "-s -w $(if $(filter 3,$*),$(HELM3_KUBE)) -X helm.sh/helm/v$*/internal/version.version=$$(go -C tools/helm$* list -m -f '{{.Version}}' helm.sh/helm/v$*)" helm.sh/helm/v$*/cmd/helm

.PHONY: ci
ci: ## Run all that CI runs
	bash .ci/run

.PHONY: clean
clean: ## Remove what was built here
	rm -rf bin dist $(TOOLS)
