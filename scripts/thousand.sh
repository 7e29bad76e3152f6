#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures the load of the operator and the agents of a thousand nodes on the API server and each other (test/scale). Prints each figure as it comes,
# and writes all of them with their limits to out/thousand/. Limits that other load on the machine can break fail nothing. Prints the
# counts in its last line. Called by `make thousand`.
#
#   KTSN_SCALE_NODES=1000        how many nodes
#   KTSN_SCALE_REST_SECONDS=600  how long a cluster at rest is measured
set -u
cd "$(dirname "$0")/.." || exit 1
KTSN_KUBERNETES_DIR=$(bin/ktsn-cluster build | sed -n 's/^kubernetes\t//p')
export KTSN_KUBERNETES_DIR KTSN_THOUSAND=1 KTSN_BIN_DIR=$PWD/bin

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2046 # a list of words
CGO_ENABLED=0 scripts/go.sh test $(scripts/suite.sh thousand) -count=1 -v -timeout 90m 2>&1 |
	tee "$log" | grep --line-buffered -vE '^ *=== |^(PASS|FAIL|ok|exit status)'
status=${PIPESTATUS[0]}

results() { grep -cE "^ *--- $1: " "$log"; }
passed=$(results PASS) failed=$(results FAIL) skipped=$(results SKIP)
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
