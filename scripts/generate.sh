#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Generates everything that follows from api/v1alpha1: deep copies, the CustomResourceDefinitions and docs/reference.md, which also has
# names of the agent; the files that the chart federator shares with the chart kubernetsn; and the OpenAPI document of ktsn-federator.
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
mkdir -p "$to/docs"
"$go" run ./scripts/reference "$to"/charts/kubernetsn/files/kubernetsn.io_*.yaml api/v1alpha1/names.go api/v1alpha1/encryption.go \
	internal/node/agent/network/names.go internal/node/agent/nodestatus/names.go internal/node/agent/watch/names.go internal/node/agent/peers/names.go \
	>"$to/docs/reference.md"
# A hub also has these kinds.
mkdir -p "$to/charts/federator/files"
for kind in tsnlinks tsnnetworks tsnpeers tsnservices tsnworkloads; do
	cp "$to/charts/kubernetsn/files/kubernetsn.io_$kind.yaml" "$to/charts/federator/files/"
done
# It also has this policy.
mkdir -p "$to/charts/federator/templates"
cp charts/kubernetsn/templates/_services.tpl "$to/charts/federator/templates/"
# The test compares it, too.
[ "$to" != . ] || "$go" -C federator test -count=1 -run '^TestDocumentIsUpToDate$' ./internal/api -update >/dev/null
