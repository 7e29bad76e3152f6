#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the long form of tests of `make test`: hostile pods in all modes, kills of ktsnd and of applications under load, replacements
# of ktsnd in place and through instances, many pods; and next to a hostile neighbour the
# departure errors of a good pod. Prints each result as it comes, then all figures with their limits (also in
# out/chaos/figures.json), and the counts in its last line. Called by `make chaos`. A limit for a pod next to a hostile neighbour fails
# the run if each turn misses it, unless turns without the neighbour differ by more. Other limits fail nothing: the machine may be busy.
set -u
cd "$(dirname "$0")/.." || exit 1
export KTSN_BIN_DIR=$PWD/bin KTSN_CHAOS=1 KTSN_FIGURES=$PWD/out/chaos/figures.json
rm -f "$KTSN_FIGURES"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2046 # a list of words
scripts/go.sh test $(scripts/suite.sh chaos) -count=1 -v -timeout 60m 2>&1 |
	tee "$log" | grep -vE '^ *=== |^(PASS|FAIL|ok|exit status)'
status=${PIPESTATUS[0]}

# Counts tests with this result, subtests included.
results() { grep -cE "^ *--- $1: " "$log"; }
passed=$(results PASS) failed=$(results FAIL) skipped=$(results SKIP)
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
echo
sed -n 's/.*figure: //p' "$log"
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
