#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the suite NAME of scripts/suites, whose tests write a table, for TIMEOUT at most. Prints the table, the log of tests that did not pass,
# and the counts in its last line. Called by `make clocks` and `make conformance` after the build.
#
#   scripts/tabletest.sh NAME TIMEOUT
set -u
cd "$(dirname "$0")/.." || exit 1

name=$1 timeout=$2
out=$PWD/out/$name
mkdir -p "$out" && rm -f "$out/table.txt" || exit 1
export KTSN_BIN_DIR=$PWD/bin "KTSN_${name^^}_TABLE=$out/table.txt"

# shellcheck disable=SC2046 # a list of words
scripts/go.sh test $(scripts/suite.sh "$name") -count=1 -v -timeout "$timeout" >"$out/log.txt" 2>&1
status=$?
count() { grep -c "^ *--- $1: " "$out/log.txt"; }
passed=$(count PASS) failed=$(count FAIL) skipped=$(count SKIP)
[ $status -eq 0 ] || [ "$failed" -gt 0 ] || failed=1

if [ -f "$out/table.txt" ]; then
	cat "$out/table.txt"
fi
if [ "$failed" -gt 0 ] || [ "$skipped" -gt 0 ]; then
	grep -vE '^ *(=== |--- PASS|PASS$|ok )' "$out/log.txt"
fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
