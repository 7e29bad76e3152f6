#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs all suites that need one machine, also after a failure, and prints the counts in its last line. Called by `make test` after the
# build.
set -um # -m: each job is a process group, so that an interruption ends all of its processes
cd "$(dirname "$0")/.." || exit 1
. scripts/tally.sh

fuzzing=''
trap 'finish $fuzzing' EXIT

# Each target for 10 seconds, from the seeds in datapath/tests/fuzz and what earlier runs kept in build-fuzz/corpus. Runs in the
# background; finish_fuzz reports it.
start_fuzz() {
	command -v clang-14 >/dev/null || return
	{
		began=$SECONDS
		scripts/fuzz.sh --each 10 C
		c=$?
		scripts/fuzz.sh --each 10 Go FuzzFrames && status=$c || status=1
		echo $((SECONDS - began)) >"$logs/fuzz.seconds"
		exit "$status"
	} >"$logs/fuzz" 2>&1 &
	fuzzing=$!
}

finish_fuzz() {
	local status bad began=$SECONDS
	echo "== C, and the program at the uplink, fuzzed for 10 seconds each, begun before these"
	if [ -z "$fuzzing" ]; then
		echo "skipped: clang-14 is missing; scripts/install-deps.sh fuzz installs it"
		skipped=$((skipped + 1))
		return
	fi
	wait "$fuzzing"
	status=$?
	fuzzing=''
	cat "$logs/fuzz"
	echo "waited for it another $((SECONDS - began)) s"
	bad=$(count_word "$logs/fuzz" FAIL)
	[ "$bad" -eq 0 ] || failures_of "fuzzed" "$logs/fuzz" '^FAIL ' '^ok '
	[ $status -eq 0 ] || [ "$bad" -gt 0 ] || { bad=1; failure "fuzzing" "$logs/fuzz"; } # a target could not be built
	took fuzz "$(cat "$logs/fuzz.seconds")"
	passed=$((passed + $(count_word "$logs/fuzz" ok))) failed=$((failed + bad))
}

# Runs the programs with sanitizers on real packets. The last line of sanitize.sh has the counts.
run_sanitized() {
	local p f s began=$SECONDS
	echo "== the whole path, AddressSanitizer and UndefinedBehaviorSanitizer, short form"
	SANITIZE_LOG=$logs/sanitized.tests run scripts/sanitize.sh --short >"$logs/sanitized" 2>&1 || {
		cat "$logs/sanitized"
		failures_of_sanitized
	}
	read -r p f s < <(sed -n '$s/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$logs/sanitized")
	echo "${p:-0} passed, ${f:-1} failed, ${s:-0} skipped, in $((SECONDS - began)) s"
	took sanitized $((SECONDS - began))
	passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1})) skipped=$((skipped + ${s:-0}))
}

failures_of_sanitized() {
	failures_of_go_text sanitized "$logs/sanitized.tests"
	failures_of sanitized "$logs/sanitized" '^== found by' '^[0-9]+ passed'
}

# Builds the tests that run inside a virtual machine, and runs the suite.
run_vm() {
	# shellcheck disable=SC2046 # words
	if CGO_ENABLED=0 scripts/go.sh test $(scripts/suite.sh inside-vm) -c -o "$PWD/bin/ktsn-inside-tests" >"$logs/inside" 2>&1; then
		run_go vm "network cards given away, in a virtual machine" -timeout 15m
	else
		cat "$logs/inside"
		failure "the tests for the virtual machine cannot be built" "$logs/inside"
		failed=$((failed + 1))
	fi
}

count_word() { # file, a line's first word
	awk -v word="$2" '$1 == word { sum++ } END { print sum + 0 }' "$1"
}

export KTSN_BIN_DIR=$PWD/bin
run_meson "C, as shipped" build
# These mostly wait for the kernel. What needs processors runs at the same time, with a lower priority.
start_go cni -timeout 20m -parallel 4
start_go content -timeout 20m -parallel 6
[ "$(id -u)" -ne 0 ] || renice -n 10 -p $$ >/dev/null
start_fuzz
run_meson "C, AddressSanitizer and UndefinedBehaviorSanitizer" build-asan \
	-Db_sanitize=address,undefined -Db_lundef=false
mapfile -t only < <(awk '$1 == "build-tsan" { print $2 }' scripts/soak/list) # those with threads; make nightly runs all
run_meson "C, ThreadSanitizer" build-tsan -Db_sanitize=thread -Db_lundef=false
only=()
run_go go "Go"
fresh=() # Go repeats results of these where nothing changed
run_go kubevirt "Go, the sidecar of KubeVirt"
run_go federator "Go, the federator"
fresh=(-count=1)
CGO_ENABLED=1 run_go race "Go with the race detector, packages without the client of Kubernetes" -race
if changed "the unit tests of ktsn-bench" bench internal/testlab; then
	run_go bench "Go, the laboratory"
	CGO_ENABLED=1 run_go race-bench "Go, the laboratory, with the race detector" -race
fi
if changed "the comparison of schedules with tsnkit" internal/shared/streams test/yardstick; then
	if run scripts/yardstick.sh --install >"$logs/yardstick.install" 2>&1; then
		run_go yardstick-short "schedules compared with tsnkit, 20 cases"
	else
		failure "tsnkit cannot be installed" "$logs/yardstick.install"
		failed=$((failed + 1))
	fi
fi
finish_fuzz
[ "$(id -u)" -ne 0 ] || renice -n 0 -p $$ >/dev/null
finish_go content "what is sent, dropped and counted, in network namespaces, begun before these"
finish_go cni "the network plugin, in network namespaces, begun before these"
# Nothing else runs at the same time from here on: ktsnd is a real-time program.
run_go netns "times and loads of the whole path, in network namespaces" -timeout 30m -parallel 4
if changed "the tests of ktsn-bench" bench internal/testlab; then
	run_go laboratory "ktsn-bench, in network namespaces" -timeout 20m
fi
run_sanitized
# An emulated machine uses a processor, and a ktsnd in one takes seconds to start: two at a time at most.
start_go clocks-short -short -timeout 15m
run_vm
finish_go clocks-short "clocks that differ, short form, begun before these"
run_go guests "virtual machines whose frames are held on the host" -timeout 15m
if changed "the tests of ktsn-bench between virtual machines" bench internal/testlab; then
	run_go laboratory-guests "ktsn-bench, between virtual machines" -timeout 15m
fi
run_go short "the shaper beside the kernel's, short form" -short -timeout 15m

verdict
