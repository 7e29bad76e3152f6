#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of test/netns with AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer in ktsnd, in libktsn.so and in the C
# programs that use it. A finding ends its process, is written to out/sanitize/, and fails the run, even if no test noticed. Go's unit
# tests run with the race detector. Prints the counts in its last line.
#
#     sanitize.sh            all tests that can run (make sanitize)
#     sanitize.sh --short    a minute of them (make test)
#     sanitize.sh TESTS      the tests that match
#
# Called after `make build`; builds the C programs again. This ktsnd's system call filter allows the sanitizers' runtime
# (sandbox_runtime in datapath/daemon/sys/privileges.c).
set -u
cd "$(dirname "$0")/.." || exit 1

[ $# -le 1 ] || { echo "usage: $0 [--short | TESTS]" >&2; exit 2; }

umask 022 # tests start programs as other users, who read what the tests write
build=build-asan out=$PWD/out/sanitize
reports=$(mktemp -d) # all users can access it, and it has no spaces, which would separate the sanitizers' options
log=${SANITIZE_LOG:-} # for a caller that wants the tests' whole output
made=
[ -n "$log" ] || made=$(mktemp) log=$made
trap 'rm -rf "$made" "$reports"' EXIT

# At least one test of each feature of ktsnd and libktsn.
short_form='^TestMessagesArriveUnchangedFromPodAddresses$'
short_form+='|^TestHostilePodHarmsOnlyItself$/^(scribble|lie|race|many|churn)$'
short_form+='|^TestPodQuota$'
short_form+='|^TestProgramShapesAreServed$/^glibc, nobody'
short_form+='|^TestPendingMessagesSurviveTakeOver$'
short_form+='|^TestTakeOverDropsOnlyCorruptRing$'
short_form+='|^TestEpollReportsWritableWithoutSpareDescriptors$/^none_left$|^TestPollIgnoresDescriptorClosedElsewhere$'
short_form+='|^TestManyMessagesOverIPv6ArriveUnchanged$'
short_form+='|^TestHostLocalGroupMessageUsesKernel$'
short_form+='|^TestEtfDropsLateFrames$|^TestFramesCarryTheirClassInTheVLANTag$'
short_form+='|^TestPacketSocketVLANTagsTravelUnchanged$'
short_form+='|^TestPythonSocketsBehaveAsWithKernel$|^TestErrorsNameTheField$'

# Tests that cannot run with sanitizers. The runtime of the sanitizers needs glibc, not musl.
left_out='/musl|^TestTxtimeMatchesKernelWithMusl$|^TestMuslPrograms'
# Tests of the shipped files.
left_out+='|^TestLibraryNeedsOnly'
# Measurements of time.
left_out+='|Bench|^TestVhost(Idle|Ring)'

# Hard links avoid copies; both folders are on one file system.
gather() {
	local datapath=$build/datapath
	mkdir -p $build/bin
	ln -f bin/* $build/bin/
	rm -f $build/bin/{ktsnd,ktsn-relay,ktsn-relay-vhost,libktsn.so,tsnperf,ktsn-test-*}
	ln -f $datapath/daemon/ktsnd $datapath/relay/ktsn-relay $datapath/relay/vhost/ktsn-relay-vhost \
		$datapath/perf/tsnperf $build/bin/
	find $datapath/tests/programs -maxdepth 1 -type f -name 'ktsn-test-*' -exec ln -f -t $build/bin {} +
	ln -f $datapath/preload/libktsn-sanitized.so $build/bin/libktsn.so
}

build() {
	[ -f $build/build.ninja ] ||
		meson setup $build -Db_sanitize=address,undefined -Db_lundef=false >"$log" 2>&1 || { cat "$log"; return 1; }
	ninja -C $build --quiet >"$log" 2>&1 || { cat "$log"; return 1; }
	gather
}

# Each process writes a separate file, whatever its user. UndefinedBehaviorSanitizer writes to standard error, sets AddressSanitizer's
# file from its own options, and aborts: AddressSanitizer's report of that is the file. libktsn.so loads the runtime into programs
# without it, after their C library, an order that the runtime must be told to accept.
options() {
	rm -rf "$out"
	mkdir -p "$out"
	chmod 1777 "$reports"
	export ASAN_OPTIONS=log_path=$reports/report:handle_abort=1:exitcode=99:verify_asan_link_order=0
	ASAN_OPTIONS+=:detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
	export UBSAN_OPTIONS=log_path=$reports/report:halt_on_error=1:abort_on_error=1:print_stacktrace=1
	export KTSN_BIN_DIR=$PWD/$build/bin KTSN_SANITIZED=1
}

# Counts tests with this result, subtests included.
results() { grep -cE "^ *--- $1: " "$log"; }

# The race detector needs cgo. It runs only without arguments.
race() {
	local arguments status=0
	for arguments in "$(scripts/suite.sh race-all)" "$(scripts/suite.sh race-all-bench)"; do
		# shellcheck disable=SC2086 # a list of words
		CGO_ENABLED=1 scripts/go.sh test $arguments -count=1 -race -v 2>&1 | tee -a "$log" |
			grep -vE '^ *=== |^(PASS|FAIL|ok|exit status|\?)'
		[ "${PIPESTATUS[0]}" -eq 0 ] || status=1
	done
	return $status
}

tests=${1:-.}
[ "$tests" != --short ] || tests=$short_form
build || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }
: >"$log"
raced=0
[ $# -gt 0 ] || race || raced=1
options
# shellcheck disable=SC2046 # a list of words
scripts/go.sh test $(scripts/suite.sh sanitized) -count=1 -v -timeout 60m -run "$tests" -skip "$left_out" 2>&1 |
	tee -a "$log" | grep -vE '^ *=== |^(PASS|FAIL|ok|exit status)'
status=${PIPESTATUS[0]}
passed=$(results PASS) failed=$(results FAIL) skipped=$(results SKIP)
[ "$status" -eq 0 ] && [ $raced -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
find "$reports" -mindepth 1 -exec mv -t "$out" {} +
for report in "$out"/*; do
	[ -e "$report" ] || break
	echo "== found by a sanitizer, $report:"
	head -n 60 "$report"
	failed=$((failed + 1))
done
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
