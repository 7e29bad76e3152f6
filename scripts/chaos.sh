#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The long form of what `make test` does to ktsnd briefly: hostile pods in all their ways, kills of ktsnd and of
# applications under load, replacements of ktsnd in place and through instances, many pods; and beside a hostile neighbour the
# departure errors of a good pod. Prints each result as it comes, then all figures with their limits (also
# out/chaos/figures.json), and closes with one line that counts the results. Called by `make chaos`. A limit beside a hostile
# neighbour fails the run when each turn misses it, unless turns without one differ by more. Another limit that is missed fails
# nothing: the machine may be busy.
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

# One a line, subtests included.
results() { grep -cE "^ *--- $1: " "$log"; }
passed=$(results PASS) failed=$(results FAIL) skipped=$(results SKIP)
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
echo
sed -n 's/.*figure: //p' "$log"
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
