#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the unit tests of C and Go: without root and hugepages, under a minute if little has changed. Called by `make unit`, after the
# build. C and Go run at the same time. Tests that need root are skipped without it, and the reasons are counted.
set -um # -m: each job is a process group, so that an interruption ends all of its processes
cd "$(dirname "$0")/.." || exit 1
. scripts/tally.sh

fresh=() # Go repeats results where nothing changed
export KTSN_BIN_DIR=$PWD/bin

meson test -C build --no-rebuild --print-errorlogs >"$logs/meson.said" 2>&1 &
c=$!
trap 'finish $c' EXIT
run_go unit "Go" -short
run_go unit-images "Go, the image builder" -short
run_go unit-release "scripts of the release" -short -count=1 # Go does not see which files they read
run_go unit-bench "Go, the laboratory" -short
run_go unit-kubevirt "Go, the sidecar of KubeVirt" -short
run_go unit-federator "Go, the federator" -short
run_go unit-cluster "Go, the cluster's own parts" -short
run_go unit-kata "Go, the stand-in for Kata's runtime" -short
echo "== C"
wait "$c"
status=$?
c=''
awk -v log_file=build/meson-logs/testlog.txt -f scripts/tap.awk "$logs/meson.said" >"$logs/meson" || cp "$logs/meson.said" "$logs/meson"
sed -i '/ OK  /d' "$logs/meson" # these are counted only
report_meson C $status $SECONDS
if [ $skipped -gt 0 ]; then
	echo
	echo "Skipped:"
	{
		for suite in unit unit-bench unit-images unit-release unit-federator unit-cluster unit-kata; do
			told skip "$logs/$suite" | sed -n 's/^ *[^ ]*_test\.go:[0-9]*: //p'
		done
		sed -n 's/.* SKIP .*/a program of C tests, see build\/meson-logs\/testlog.txt/p' "$logs/meson"
	} | sed 's/-test-[0-9]*/-test/' | sort | uniq -c | sort -rn
fi
verdict
