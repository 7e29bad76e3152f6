#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything that proves the product on one machine. Runs each suite to its end, whatever failed before,
# and closes with one line that counts them all. Called by `make test`, after the build.
set -um # -m: what runs is a process group, which an interruption ends as a whole
cd "$(dirname "$0")/.." || exit 1

passed=0 failed=0 skipped=0
logs=$(mktemp -d)
job='' fuzzing='' beside=''

finish() {
	trap - EXIT
	trap '' INT TERM
	for group in $job $fuzzing $beside; do
		kill -- "-$group" 2>/dev/null
		wait "$group" 2>/dev/null
	done
	rm -rf "$logs"
}
trap finish EXIT
trap 'exit 130' INT TERM

# A trap waits for a command in the foreground, but not for `wait`.
run() {
	"$@" &
	job=$!
	wait "$job"
	local status=$?
	job=''
	return $status
}

# A C suite: unit tests as they are, and again under the sanitizers.
run_meson() { # name, build folder, meson setup arguments...
	local name=$1 folder=$2 status bad began=$SECONDS
	shift 2
	echo "== $name"
	[ -f "$folder/build.ninja" ] || run meson setup "$folder" "$@" >"$logs/setup" 2>&1 ||
		{ cat "$logs/setup"; failed=$((failed + 1)); return; }
	run ninja -C "$folder" --quiet >"$logs/build" 2>&1 ||
		{ cat "$logs/build"; failed=$((failed + 1)); return; }
	run meson test -C "$folder" --no-rebuild --print-errorlogs >"$logs/meson" 2>&1
	status=$?
	grep -vE '^(ninja|Full log|$)' "$logs/meson"
	echo "built and run in $((SECONDS - began)) s"
	passed=$((passed + $(count "$logs/meson" '^Ok:')))
	bad=$(($(count "$logs/meson" '^Fail:') + $(count "$logs/meson" '^Timeout:') + $(count "$logs/meson" '^Unexpected Pass:')))
	[ $status -eq 0 ] || [ $bad -gt 0 ] || bad=1 # meson itself came to grief
	failed=$((failed + bad))
	skipped=$((skipped + $(count "$logs/meson" '^Skipped:')))
}

count() { # file, line's beginning
	awk -v line="$2" '$0 ~ line { sum += $NF } END { print sum + 0 }' "$1"
}

# Go: one event a line, tests and their results, subtests included. Without C, as the programs, so that dependencies are compiled
# once for all, unless told CGO_ENABLED=1.
go_test() { # suite, flags...
	local suite
	suite=$(scripts/suite.sh "$1") || return
	# shellcheck disable=SC2086 # a list of words
	CGO_ENABLED=${CGO_ENABLED:-0} scripts/go.sh test $suite -count=1 -json "${@:2}" >"$logs/$1" 2>"$logs/$1.err"
}

run_go() { # suite, name, flags...
	local began=$SECONDS
	echo "== $2"
	run go_test "$1" "${@:3}"
	report_go "$1" $? $((SECONDS - began))
}

# Beside what follows, and its report comes later.
start_go() { # suite, flags...
	go_test "$@" &
	beside=$!
}

finish_go() { # suite, name
	local status began=$SECONDS
	echo "== $2"
	wait "$beside"
	status=$?
	beside=''
	report_go "$1" $status $((SECONDS - began))
}

report_go() { # suite, status, seconds
	local log=$logs/$1 p f s
	events() { grep -c "\"Action\":\"$1\".*\"Test\":" "$log"; }
	p=$(events pass) f=$(events fail) s=$(events skip)
	if [ "$2" -ne 0 ]; then
		cat "$log.err"
		sed -n 's/.*"Action":"\(output\|build-output\)".*"Output":"\(.*\)"}$/\2/p' "$log" |
			sed 's/\\n$//; s/\\t/\t/g; s/\\"/"/g; s/\\u003c/</g; s/\\u003e/>/g; s/\\u0026/\&/g'
		[ "$f" -gt 0 ] || f=1
	fi
	echo "$p passed, $f failed, $s skipped, in $3 s"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# Briefly, so that a change which breaks a target or is broken by the first seconds of it is seen. It goes on beside what
# follows, and its report comes later.
start_fuzz() {
	command -v clang-14 >/dev/null || return
	scripts/fuzz.sh --each 60 C >"$logs/fuzz" 2>&1 &
	fuzzing=$!
}

finish_fuzz() {
	local status bad began=$SECONDS
	echo "== C, fuzzed for a minute each"
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
	[ $status -eq 0 ] || [ "$bad" -gt 0 ] || bad=1 # a target could not be built
	passed=$((passed + $(count_word "$logs/fuzz" ok))) failed=$((failed + bad))
}

# The programs under sanitizers, on real packets; the last line counts.
run_sanitized() {
	local p f s began=$SECONDS
	echo "== the whole path, AddressSanitizer and UndefinedBehaviorSanitizer, short form"
	run scripts/sanitize.sh --short >"$logs/sanitized" 2>&1 || cat "$logs/sanitized"
	read -r p f s < <(sed -n '$s/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$logs/sanitized")
	echo "${p:-0} passed, ${f:-1} failed, ${s:-0} skipped, in $((SECONDS - began)) s"
	passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1})) skipped=$((skipped + ${s:-0}))
}

count_word() { # file, a line's first word
	awk -v word="$2" '$1 == word { sum++ } END { print sum + 0 }' "$1"
}

run_meson "C, as shipped" build
run_meson "C, AddressSanitizer and UndefinedBehaviorSanitizer" build-asan \
	-Db_sanitize=address,undefined -Db_lundef=false
run_meson "C, ThreadSanitizer" build-tsan -Db_sanitize=thread -Db_lundef=false
start_fuzz
# Beside it what is hardly ever about time: unit tests, mostly compiled, and the network plugin, which waits for the kernel.
export KTSN_BIN_DIR=$PWD/bin
start_go cni -timeout 10m
run_go go "Go"
CGO_ENABLED=1 run_go race "Go, with the race detector, what does without Kubernetes" -race
finish_go cni "the network plugin, in network namespaces, begun before these"
finish_fuzz
# From here on nothing else runs: ktsnd is a real-time program.
run_go netns "the whole path, in network namespaces" -timeout 20m -parallel 4 # four that wait, else one
run_sanitized
# On its own: the emulation takes a processor for itself.
run_go short "the shaper beside the kernel's, short form" -short -timeout 15m

if [ "${CI:-}" = true ] && [ $skipped -gt 0 ]; then
	echo "tests were skipped, and in CI none may be"
	failed=$((failed + skipped))
fi
echo
echo "in $((SECONDS / 60)) min $((SECONDS % 60)) s"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
