#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: figures.sh SUITE, of scripts/suites: tests that measure (test/netns). Prints each figure as it comes; all of
# them with their limits are in out/SUITE/figures.json. Missed limits fail nothing: the machine may be busy. Called by
# `make capture`, `make receive` and `make guests`.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
out=out/$1
export KTSN_BIN_DIR=$PWD/bin KTSN_FIGURES=$PWD/$out/figures.json
rm -rf "$out" && mkdir -p "$out"

# shellcheck disable=SC2046 # a list of words
scripts/go.sh test $(scripts/suite.sh "$1") -count=1 -v -timeout 20m 2>&1 |
	tee "$out/log" | sed -un 's/.*figure: //p'
status=${PIPESTATUS[0]}
[ "$status" -eq 0 ] || grep -vE '^ *=== |figure: ' "$out/log"
exit "$status"
