#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything that proves the product on one machine. Runs each suite to its end, whatever failed before,
# and closes with one line that counts them all. Called by `make test`, after the build.
set -um # -m: what runs is a process group, which an interruption ends as a whole
cd "$(dirname "$0")/.." || exit 1

passed=0 failed=0 skipped=0
logs=$(mktemp -d)
job='' fuzzing=''

finish() {
	trap - EXIT
	trap '' INT TERM
	for group in $job $fuzzing; do
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
	local name=$1 folder=$2 status bad
	shift 2
	echo "== $name"
	[ -f "$folder/build.ninja" ] || run meson setup "$folder" "$@" >"$logs/setup" 2>&1 ||
		{ cat "$logs/setup"; failed=$((failed + 1)); return; }
	run ninja -C "$folder" --quiet >"$logs/build" 2>&1 ||
		{ cat "$logs/build"; failed=$((failed + 1)); return; }
	run meson test -C "$folder" --no-rebuild --print-errorlogs >"$logs/meson" 2>&1
	status=$?
	grep -vE '^(ninja|Full log|$)' "$logs/meson"
	passed=$((passed + $(count "$logs/meson" '^Ok:')))
	bad=$(($(count "$logs/meson" '^Fail:') + $(count "$logs/meson" '^Timeout:') + $(count "$logs/meson" '^Unexpected Pass:')))
	[ $status -eq 0 ] || [ $bad -gt 0 ] || bad=1 # meson itself came to grief
	failed=$((failed + bad))
	skipped=$((skipped + $(count "$logs/meson" '^Skipped:')))
}

count() { # file, line's beginning
	awk -v line="$2" '$0 ~ line { sum += $NF } END { print sum + 0 }' "$1"
}

# Go: one event a line, tests and their results, subtests included. Without C, as the programs: dependencies are compiled once
# for all.
run_go() { # name, packages and flags...
	local name=$1 status
	shift
	echo "== $name"
	CGO_ENABLED=0 run scripts/go.sh test -count=1 -json "$@" >"$logs/go" 2>"$logs/go.err"
	status=$?
	events() { grep -c "\"Action\":\"$1\".*\"Test\":" "$logs/go"; }
	local p f s
	p=$(events pass) f=$(events fail) s=$(events skip)
	if [ $status -ne 0 ]; then
		cat "$logs/go.err"
		sed -n 's/.*"Action":"\(output\|build-output\)".*"Output":"\(.*\)"}$/\2/p' "$logs/go" |
			sed 's/\\n$//; s/\\t/\t/g; s/\\"/"/g; s/\\u003c/</g; s/\\u003e/>/g; s/\\u0026/\&/g'
		[ "$f" -gt 0 ] || f=1
	fi
	echo "$p passed, $f failed, $s skipped"
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
	local status bad
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
	bad=$(count_word "$logs/fuzz" FAIL)
	[ $status -eq 0 ] || [ "$bad" -gt 0 ] || bad=1 # a target could not be built
	passed=$((passed + $(count_word "$logs/fuzz" ok))) failed=$((failed + bad))
}

# The programs under sanitizers, on real packets; the last line counts.
run_sanitized() {
	local p f s
	echo "== the whole path, AddressSanitizer and UndefinedBehaviorSanitizer, short form"
	run scripts/sanitize.sh --short >"$logs/sanitized" 2>&1 || cat "$logs/sanitized"
	read -r p f s < <(sed -n '$s/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$logs/sanitized")
	echo "${p:-0} passed, ${f:-1} failed, ${s:-0} skipped"
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
run_go "Go" ./api/... ./cmd/... ./internal/... # mostly compiled, and hardly ever about time
finish_fuzz
# From here on nothing else runs: ktsnd is a real-time program.
export KTSN_BIN_DIR=$PWD/bin
run_go "the whole path, in network namespaces" -timeout 20m -parallel 4 ./test/netns/... # four that wait, else one
run_sanitized
# On its own: the emulation takes a processor for itself.
run_go "the shaper beside the kernel's, short form" -short -timeout 15m ./test/conformance/...

if [ "${CI:-}" = true ] && [ $skipped -gt 0 ]; then
	echo "tests were skipped, and in CI none may be"
	failed=$((failed + skipped))
fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
