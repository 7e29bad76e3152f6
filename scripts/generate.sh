#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Generates everything that follows from api/v1alpha1: deep copies, the CustomResourceDefinitions and the pages of docs/reference/api,
# which also have names of the agent and of the federator; the files that the chart federator shares with the chart kubernetsn; and the
# OpenAPI document of ktsn-federator.
# Usage: generate.sh [FOLDER]. The output goes to FOLDER instead of the source tree.
set -eu
cd "$(dirname "$0")/.."
to=${1:-.}
go=$PWD/scripts/go.sh
tool=$("$go" -C scripts/controller-gen tool -n controller-gen)
mkdir -p "$to/api/v1alpha1" "$to/charts/kubernetsn/files"
"$tool" paths=./api/... \
	object:headerFile=scripts/controller-gen/header.txt "output:object:dir=$to/api/v1alpha1" \
	crd "output:crd:dir=$to/charts/kubernetsn/files"
# Fields that two kinds have are described on the page of the first one.
definitions=
for kind in tsnpeers tsnnetworks tsnnodes tsnservices tsnlinks tsnworkloads; do
	definitions="$definitions $to/charts/kubernetsn/files/kubernetsn.io_$kind.yaml"
done
# shellcheck disable=SC2086 # one argument per kind
"$go" run ./scripts/reference "$to/docs/reference/api" $definitions api/v1alpha1/names.go api/v1alpha1/encryption.go \
	internal/cluster/ipamclaim/names.go internal/node/clock/reasons.go internal/node/agent/clocks/judgement.go internal/node/agent/links/report.go \
	internal/node/agent/network/names.go internal/node/agent/nodestatus/names.go internal/node/agent/watch/names.go \
	internal/node/agent/peers/names.go internal/node/hostcheck/names.go internal/shared/federation/names.go federator/internal/spread/finding.go \
	federator/internal/networks/plan.go federator/internal/networks/write.go federator/internal/services/plan.go \
	federator/internal/services/quota.go federator/internal/services/pair.go federator/internal/workloads/policy.go \
	federator/internal/clusters/token.go
# A hub also has these kinds.
mkdir -p "$to/charts/federator/files"
for kind in tsnlinks tsnnetworks tsnpeers tsnservices tsnworkloads; do
	cp "$to/charts/kubernetsn/files/kubernetsn.io_$kind.yaml" "$to/charts/federator/files/"
done
# The tables of values are comments of values.yaml.
docs=$("$go" -C scripts/helm-docs tool -n helm-docs)
for chart in kubernetsn federator; do
	"$docs" --dry-run --chart-search-root "charts/$chart" --sort-values-order file --log-level warning \
		>"$to/charts/$chart/README.md"
done
# It also has this policy.
mkdir -p "$to/charts/federator/templates"
cp charts/kubernetsn/templates/_services.tpl "$to/charts/federator/templates/"
# The test compares it, too.
[ "$to" != . ] || "$go" -C federator test -count=1 -run '^TestDocumentIsUpToDate$' ./internal/api -update >/dev/null
