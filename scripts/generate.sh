#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Generates what follows from api/v1alpha1: deep copies, beside the types, the CustomResourceDefinitions and docs/reference.md, which
# has names of the agent as well; what the chart federator has of the chart kubernetsn; and the OpenAPI document of ktsn-federator.
# Usage: generate.sh [FOLDER], which takes the place of the source tree for what is written.
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
# A hub has these kinds, too.
mkdir -p "$to/charts/federator/files"
for kind in tsnlinks tsnnetworks tsnpeers tsnservices tsnworkloads; do
	cp "$to/charts/kubernetsn/files/kubernetsn.io_$kind.yaml" "$to/charts/federator/files/"
done
# And this policy.
mkdir -p "$to/charts/federator/templates"
cp charts/kubernetsn/templates/_services.tpl "$to/charts/federator/templates/"
# Compared by a test of that module.
[ "$to" != . ] || "$go" -C federator run ./openapi >docs/federation.openapi.json
