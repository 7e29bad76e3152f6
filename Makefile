# SPDX-License-Identifier: Apache-2.0
# Each target installs the packages that it needs (Debian 12, as root), or names them, and calls the tool that does the work.

GO    := scripts/go.sh
BUILD := build
# The Go modules with code of this project.
MODULES := . bench images kubevirt federator test/cluster test/cluster/kata
# The shell commands run only if something is linked.
RELEASE = $(shell scripts/release-version.sh 2>/dev/null || echo unknown)
LINK = -s -w -X 'github.com/kubernetsn/kubernetsn/internal/shared/version.commit=$(shell scripts/commit.sh)' \
	-X github.com/kubernetsn/kubernetsn/internal/shared/version.release=$(RELEASE)
# Builds are reproducible in any folder. Tests and programs share the compiled packages.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false -trimpath)

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: build-demo ## two nodes on this machine, real packets, compared with the kernel's path
	@scripts/install-deps.sh demo
	@bin/ktsn demo --out out/demo

.PHONY: test
test: build helm ## all tests that one machine can run (root)
	@scripts/install-deps.sh test
	@scripts/test.sh

.PHONY: unit
unit: build helm ## unit tests of C and Go (no root, under a minute once built)
	@scripts/unit.sh

.PHONY: check
check: ## lint and unit, before each commit
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory unit

.PHONY: nightly
nightly: ## all tests in their long form, with a table in out/nightly/ (root, a night); NIGHTLY_FROM=STEP continues
	@scripts/nightly.sh

.PHONY: tsan
tsan: deps ## all unit tests of C with ThreadSanitizer
	@[ -f build-tsan/build.ninja ] || meson setup build-tsan -Db_sanitize=thread -Db_lundef=false >/dev/null
	@ninja -C build-tsan --quiet
	@meson test -C build-tsan --no-rebuild --print-errorlogs

.PHONY: soak
soak: build helm ## unit tests and those of scripts/soak/list, 20 times under load (root, an hour at most)
	@scripts/install-deps.sh test
	@scripts/soak.sh

.PHONY: sanitize
sanitize: build ## the whole path with sanitizers in ktsnd, libktsn and its users (root, half an hour)
	@scripts/install-deps.sh test
	@scripts/sanitize.sh

.PHONY: chaos
chaos: build ## kills, replacements, floods, hostile pods, many pods (root, a quarter of an hour)
	@scripts/install-deps.sh test
	@scripts/chaos.sh

.PHONY: previous
previous: build ## ktsnd and libktsn.so next to those of the previous release, which is built from its tag (root, ten minutes)
	@scripts/install-deps.sh test
	@scripts/previous.sh

.PHONY: thousand
thousand: build helm ## a thousand nodes with the API server, the operator and the real agents (root, a quarter of an hour)
	@scripts/install-deps.sh cluster
	@CGO_ENABLED=0 $(GO) build -C test/cluster -ldflags="$(LINK)" -o ../../bin/ ./cmd/ktsn-cluster
	@scripts/thousand.sh

.PHONY: record
record: build ## record the bytes that this version's programs exchange, for tests of later releases (root)
	@scripts/install-deps.sh test
	@scripts/record.sh

.PHONY: conformance
conformance: build ## compare the shaper with the kernel's taprio and etf, in a virtual machine
	@scripts/install-deps.sh conformance
	@scripts/tabletest.sh conformance 15m

.PHONY: foreign
foreign: build ## the tests of CPython, libuv, libevent, tokio and the kernel with libktsn.so: all results as without it (root, an hour or two)
	@scripts/install-deps.sh test
	@scripts/install-deps.sh foreign
	@scripts/foreign.sh

.PHONY: yardstick
yardstick: build ## compare schedules of `ktsn schedule plan` with tsnkit's on 220 cases, and run them in its simulator (hours)
	@scripts/install-deps.sh yardstick
	@scripts/yardstick.sh

.PHONY: clocks
clocks: build ## compare reported clock errors with true ones, in virtual machines whose clocks differ (root, a quarter of an hour)
	@scripts/install-deps.sh conformance
	@scripts/tabletest.sh clocks 40m

.PHONY: bench
bench: build ## the full measurements (a quarter of an hour, root): tables and reports in out/bench/
	@mkdir -p out/bench
	@$(BUILD)/datapath/tests/bench/ktsn-datapath-bench --out out/bench/shaper.json
	@KTSN_BIN_DIR="$(CURDIR)/bin" KTSN_BENCH_CALLS="$(CURDIR)/out/bench/calls.json" \
		$(GO) test $$(scripts/suite.sh calls) -count=1
	@KTSN_BIN_DIR="$(CURDIR)/bin" $(GO) test $$(scripts/suite.sh plugin) -count=1 -bench . -benchtime 100x
	@KTSN_BIN_DIR="$(CURDIR)/bin" $(GO) test $$(scripts/suite.sh messages) -count=1 -v
	@bin/ktsn bench run kubernetsn --out out/bench/kubernetsn-$$(date +%Y%m%d-%H%M%S)

.PHONY: bench-vm
bench-vm: build ## profile vm: publisher and subscriber in emulated virtual machines, held on the host and released by the guest (root, a quarter of an hour)
	@scripts/install-deps.sh conformance
	@scripts/guest-kernel.sh >/dev/null
	@scripts/guest-qemu.sh >/dev/null
	@mkdir -p out/bench
	@bin/ktsn bench run vm --out out/bench/vm-$$(date +%Y%m%d-%H%M%S)

.PHONY: bench-kata
bench-kata: build ## profile kata-cases in emulated virtual machines: no schedule, the host's, the machine's own (root, ten minutes)
	@scripts/install-deps.sh test
	@scripts/install-deps.sh conformance
	@scripts/guest-kernel.sh >/dev/null
	@scripts/guest-qemu.sh >/dev/null
	@mkdir -p out/bench
	@bin/ktsn bench run kata-cases --target guest --out out/bench/kata-$$(date +%Y%m%d-%H%M%S) \
		--assert 'guest-tap.gates-iperf3.median_of_alternations.scheduled_ns.span_p99_9 <= 1.5 * guest-tap.gates.median_of_alternations.scheduled_ns.span_p99_9'

.PHONY: bench-links
bench-links: build ## profiles links and many-links: links between pods compared with Flannel and the bare link, a thousand links (root, half an hour)
	@scripts/install-deps.sh test
	@mkdir -p out/bench
	@bin/ktsn bench run links --out out/bench/links-$$(date +%Y%m%d-%H%M%S)
	@bin/ktsn bench run many-links --out out/bench/many-links-$$(date +%Y%m%d-%H%M%S)

.PHONY: capture
capture: build ## captured programs and all traffic of pods, compared with libktsn and the kernel (root, five minutes)
	@scripts/install-deps.sh test
	@scripts/figures.sh capture

.PHONY: guests
guests: build ## virtual machines under clock jumps, kills, floods, and with frames that they release themselves (root, five minutes)
	@scripts/install-deps.sh test
	@scripts/install-deps.sh conformance
	@KTSN_GUESTS=1 scripts/figures.sh guests

.PHONY: receive
receive: build ## datagrams that bypass the bridge or use receive rings, compared with the kernel's path (root, five minutes)
	@scripts/install-deps.sh test
	@scripts/figures.sh receive

# The Kubernetes version that helm assumes without a cluster, as in "helm template": that of its client-go. The default,
# 1.20, is too old for the charts.
HELM_KUBERNETES := -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34 \
	-X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=34

.PHONY: helm
helm:
	@scripts/install-deps.sh build
	@CGO_ENABLED=0 $(GO) -C scripts/helm build -ldflags='-s -w $(HELM_KUBERNETES)' -o ../../bin/ helm.sh/helm/v3/cmd/helm

# Plain manifests name the images of `make images`, if there are any.
CHART_VALUES ?= $(addprefix --values ,$(wildcard out/images/values.yaml))

.PHONY: chart
chart: helm ## check the Helm charts and render plain manifests, into out/chart/
	@bin/helm lint --quiet --strict --kube-version 1.34.0 --set image.prefix=registry.example.org/kubernetsn,image.tag=dev charts/kubernetsn
	@bin/helm lint --quiet --strict --kube-version 1.34.0 --set image.prefix=registry.example.org/kubernetsn,image.tag=dev,program.tlsSecret=tls charts/federator
	@mkdir -p out/chart
	@if [ -n "$(CHART_VALUES)" ]; then \
		bin/helm template kubernetsn charts/kubernetsn --no-hooks --kube-version 1.34.0 $(CHART_VALUES) >out/chart/kubernetsn.yaml; \
	else \
		rm -f out/chart/kubernetsn.yaml; \
		echo "No plain manifests: they name images. Run \`make images\` first, or set CHART_VALUES=\"--set image.prefix=...\"."; \
	fi

.PHONY: e2e
e2e: images ## run the tests in a real Kubernetes cluster of two nodes on this machine (root)
	@$(MAKE) --no-print-directory chart # of the images that there are now
	@$(MAKE) --no-print-directory release-tools || [ "$$CI" != true ]
	@scripts/install-deps.sh cluster || [ "$$CI" != true ] # where it cannot be, the tests are skipped
	@CGO_ENABLED=0 $(GO) build -C test/cluster -ldflags="$(LINK)" -o ../../bin/ ./cmd/...
	@CGO_ENABLED=0 $(GO) build -C test/cluster/kata -ldflags='-s -w' -o ../../../bin/ ./cmd/...
	@scripts/e2e.sh

.PHONY: federation
federation: images ## run the tests of a hub with two clusters of one node, and measure their usage at rest (root, a quarter of an hour)
	@$(MAKE) --no-print-directory helm
	@scripts/install-deps.sh cluster || [ "$$CI" != true ] # where it cannot be, the tests are skipped
	@CGO_ENABLED=0 $(GO) build -C test/cluster -ldflags="$(LINK)" -o ../../bin/ ./cmd/ktsn-cluster
	@scripts/federation.sh

.PHONY: bench-federation
bench-federation: images ## measure the cost of a federation and the failures that it tolerates (root, half an hour)
	@$(MAKE) --no-print-directory helm
	@scripts/install-deps.sh cluster
	@CGO_ENABLED=0 $(GO) build -C test/cluster -ldflags="$(LINK)" -o ../../bin/ ./cmd/ktsn-cluster
	@scripts/bench-federation.sh

.PHONY: bench-healing
bench-healing: images ## measure how long a link's client is not answered after failures, in a cluster and across (root, an hour)
	@$(MAKE) --no-print-directory helm
	@scripts/install-deps.sh cluster
	@CGO_ENABLED=0 $(GO) build -C test/cluster -ldflags="$(LINK)" -o ../../bin/ ./cmd/...
	@scripts/bench-healing.sh

.PHONY: kubevirt
kubevirt: build ## KubeVirt in a separate cluster, with a virtual machine on a network (root, minutes, the first time more)
	@scripts/install-deps.sh kubevirt
	@CGO_ENABLED=0 $(GO) build -C images -ldflags='-s -w' -o ../bin/ ./cmd/ktsn-images
	@CGO_ENABLED=0 $(GO) build -C test/cluster -ldflags="$(LINK)" -o ../../bin/ ./cmd/ktsn-cluster
	@scripts/kubevirt.sh

.PHONY: upgrades
upgrades: ## 20 upgrades of the chart under load, from the previous release if there is one (root, a quarter of an hour)
	@previous=$$(scripts/previous-release.sh) && \
		E2E_PREVIOUS="$${previous:+$$previous/out/release}" E2E_UPGRADES=20 E2E_RUN='^(TestUpgradeUnderLoad|TestRollbackDuringUpgrade)$$' \
		$(MAKE) --no-print-directory e2e

# IMAGES_FLAGS=--locked: use only the Debian packages in images/debian.lock, as releases do.
.PHONY: images
images: build ## container images as OCI archives, into out/images/
	@scripts/install-deps.sh images
	@CGO_ENABLED=0 $(GO) build -C images -ldflags="-s -w -X main.version=$(RELEASE)" -o ../bin/ ./cmd/...
	@# Each pod has a copy of its own, in the node's memory: 120 KiB, with what debuggers read 880.
	@mkdir -p bin/slim && strip --strip-unneeded -o bin/slim/libktsn.so bin/libktsn.so
	@bin/ktsn-images --out out/images --source BIN=bin $(IMAGES_FLAGS) images/*.yaml

.PHONY: release-tools
release-tools: helm
	@scripts/install-deps.sh release
	@CGO_ENABLED=0 $(GO) -C scripts/nfpm build -ldflags='-s -w' -o ../../bin/ github.com/goreleaser/nfpm/v2/cmd/nfpm
	@CGO_ENABLED=0 $(GO) -C scripts/govulncheck build -ldflags='-s -w' -o ../../bin/ golang.org/x/vuln/cmd/govulncheck

# Writes the bill of materials, and takes minutes to build the first time.
.PHONY: syft
syft:
	@CGO_ENABLED=0 $(GO) -C scripts/syft build -o ../../bin/ \
		-ldflags="-s -w -X main.version=$$(sed -n 's|.*anchore/syft v\([^ ]*\).*|\1|p' scripts/syft/go.mod)" github.com/anchore/syft/cmd/syft

.PHONY: release
release: ## the files of a release, into out/release/: images, charts, packages, checksums; RELEASE_KEY=FILE signs (docs/guide/releases.md)
	@scripts/release.sh

.PHONY: reproducible
reproducible: ## build the release in two folders, and compare all bytes (root, half an hour)
	@scripts/reproducible.sh

.PHONY: scan
scan: images release-tools ## scan the programs of a release for known vulnerabilities; VULNDB=FOLDER has the database
	@scripts/scan.sh

.PHONY: build-demo
build-demo: deps # what the demo needs: without what is Kubernetes' alone it is built in half the time
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) >/dev/null
	@ninja -C $(BUILD) --quiet
	@mkdir -p bin
	@install -C $(BUILD)/datapath/daemon/ktsnd $(BUILD)/datapath/preload/libktsn.so \
		$(BUILD)/datapath/perf/tsnperf $(BUILD)/datapath/relay/ktsn-relay \
		$(BUILD)/datapath/relay/vhost/ktsn-relay-vhost \
		$(BUILD)/datapath/tests/programs/ktsn-test-send \
		$(BUILD)/datapath/tests/programs/ktsn-test-shapes $(BUILD)/datapath/tests/programs/ktsn-test-hostile \
		$(BUILD)/datapath/tests/programs/ktsn-test-txtime $(BUILD)/datapath/tests/programs/ktsn-test-calls \
		$(BUILD)/datapath/tests/programs/ktsn-test-threads $(BUILD)/datapath/tests/programs/ktsn-test-receive \
		$(BUILD)/datapath/tests/programs/ktsn-test-guest $(BUILD)/datapath/tests/programs/ktsn-test-sandbox \
		$(BUILD)/datapath/tests/programs/ktsn-test-drain $(BUILD)/datapath/tests/programs/ktsn-test-sctp \
		$(BUILD)/datapath/tests/programs/ktsn-test-hostile-guest \
		$(BUILD)/datapath/tests/replay/ktsn-shaper-replay bin/
	@install -C -m 644 $(BUILD)/datapath/capture/capture.bpf.o internal/node/capture/object/
	@install -C -m 644 $(BUILD)/datapath/receive/receive.bpf.o internal/node/receive/object/
	@CGO_ENABLED=0 $(GO) build -ldflags="$(LINK)" -o bin/ ./cmd/ktsn ./cmd/tsn-cni
	@CGO_ENABLED=0 $(GO) build -C bench -ldflags="$(LINK)" -o ../bin/ ./cmd/...
	@CGO_ENABLED=0 $(GO) -C scripts/cni-plugins build -ldflags='-s -w' -o ../../bin/ \
		github.com/containernetworking/plugins/plugins/ipam/static

.PHONY: build
build: build-demo ## all programs into bin/
	@CGO_ENABLED=0 $(GO) build -ldflags="$(LINK)" -o bin/ ./cmd/...
	@CGO_ENABLED=0 $(GO) build -C kubevirt -ldflags="$(LINK)" -o ../bin/ ./cmd/...
	@CGO_ENABLED=0 $(GO) build -C federator -ldflags="$(LINK)" -o ../bin/ ./cmd/...
	@CGO_ENABLED=0 $(GO) build -ldflags='-s -w' -o bin/ktsn-conformance-guest ./test/conformance/guest
	@CGO_ENABLED=0 $(GO) build -ldflags='-s -w' -o bin/ktsn-test-first ./internal/testlab/guestmachine/first
	@[ "$$(uname -m)" != x86_64 ] || CGO_ENABLED=0 $(GO) build -ldflags='-s -w' -o bin/ktsn-clock-guest ./test/clock/guest
	@CGO_ENABLED=0 $(GO) build -ldflags='-s -w' -o bin/ktsn-test-talker ./test/netns/talker
	@CGO_ENABLED=0 $(GO) build -ldflags='-s -w' -o bin/ktsn-test-machine ./test/netns/machine
	@CGO_ENABLED=0 $(GO) build -ldflags='-s -w' -o bin/ktsn-test-inside ./test/netns/inside
	@for name in sender receiver; do $(CC) -O2 -o bin/example-c-$$name examples/c/$$name.c || exit 1; done
	@for name in send receive; do CGO_ENABLED=0 $(GO) build -ldflags='-s -w' -o bin/example-go-$$name ./examples/go/$$name || exit 1; done

.PHONY: deps
deps:
	@scripts/install-deps.sh build

.PHONY: fmt
fmt: ## format C and Go
	@scripts/install-deps.sh lint
	@git ls-files 'datapath/*.[ch]' 'examples/*.[ch]' | xargs clang-format-14 -i
	@for module in $(MODULES); do $(GO) fmt -C $$module ./... || exit 1; done

.PHONY: generate
generate: ## deep copies, CustomResourceDefinition and reference, from api/
	@scripts/generate.sh

.PHONY: lint
lint: deps ## formatting, names, prose, shellcheck, clang-tidy, go vet, golangci-lint
	@scripts/install-deps.sh lint
	@git ls-files 'datapath/*.[ch]' 'examples/*.[ch]' | xargs clang-format-14 --dry-run --Werror
	@git ls-files 'datapath/*.[ch]' 'examples/*.[ch]' | xargs scripts/lint/width.sh
	@git grep -lE '^#!.*\b(ba)?sh$$' | xargs shellcheck -x
	@$(MAKE) --no-print-directory style
	@scripts/lint/tidy.sh
	@for module in $(MODULES); do \
		$(GO) vet -C $$module ./... && \
		$(GO) run -C $$module github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run ./... || exit 1; \
	done

VALE := github.com/vale-cli/vale/v3/cmd/vale@v3.21.0
bin/vale: # its parsers of comments are C
	@GOBIN="$(CURDIR)/bin" CGO_ENABLED=1 $(GO) install $(VALE)

.PHONY: style
style: bin/vale ## names, single-prototype headers, small packages, and prose with Vale: no more findings than the baseline allows
	@$(GO) run ./scripts/lint/style --vale bin/vale

.PHONY: style-baseline
style-baseline: bin/vale ## write smaller numbers of findings to scripts/lint/style/baseline
	@$(GO) run ./scripts/lint/style --vale bin/vale --update

.PHONY: tidy
tidy: deps ## clang-tidy with its static analyzer, over all C sources (minutes)
	@scripts/install-deps.sh lint
	@scripts/lint/tidy.sh --all

.PHONY: hooks
hooks: ## install git hooks that check commit messages and staged files in seconds
	@git config core.hooksPath scripts/hooks
	@echo "git runs scripts/hooks/ now. Back: git config --unset core.hooksPath"

# Divided among all targets; the corpus is kept in build-fuzz/ for the next run.
FUZZ_SECONDS ?= 3600
FUZZ_FRAMES ?= 100000000
.PHONY: fuzz
fuzz: build ## fuzz everything that reads untrusted bytes, FUZZ_SECONDS=3600 in all, and the uplink's program with FUZZ_FRAMES (root)
	@scripts/install-deps.sh fuzz
	@FUZZ_FRAMES=$(FUZZ_FRAMES) scripts/fuzz.sh $(FUZZ_SECONDS)

.PHONY: clean
clean: ## remove what was built
	@rm -rf $(BUILD) $(BUILD)-* bin out
