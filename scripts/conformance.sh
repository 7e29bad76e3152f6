#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares the shaper with the kernel's taprio and etf. Prints a table of the scenarios, and the counts in its last line. Called by
# `make conformance` after the build.
set -u
cd "$(dirname "$0")/.." || exit 1

out=$PWD/out/conformance
mkdir -p "$out" && rm -f "$out/table.txt" || exit 1
export KTSN_BIN_DIR=$PWD/bin KTSN_CONFORMANCE_TABLE=$out/table.txt

# shellcheck disable=SC2046 # a list of words
scripts/go.sh test $(scripts/suite.sh conformance) -count=1 -v -timeout 15m >"$out/log.txt" 2>&1
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
