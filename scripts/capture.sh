#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Captured frames beside libktsn and the kernel (test/netns/captured_bench_test.go). Prints each figure as it comes; all of them
# with their limits are in out/capture/figures.json. A limit that is missed fails nothing: the machine may be busy. Called by
# `make capture`.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
export KTSN_BIN_DIR=$PWD/bin KTSN_FIGURES=$PWD/out/capture/figures.json
rm -rf out/capture && mkdir -p out/capture

# shellcheck disable=SC2046 # a list of words
scripts/go.sh test $(scripts/suite.sh capture) -count=1 -v -timeout 20m 2>&1 |
	tee out/capture/log | sed -un 's/.*figure: //p'
status=${PIPESTATUS[0]}
[ "$status" -eq 0 ] || grep -vE '^ *=== |figure: ' out/capture/log
exit "$status"
