# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Runs suites of tests and counts their results. Sourced by test.sh, unit.sh, soak.sh and e2e.sh, which close with `verdict`.
# What runs is a process group (set -m), which an interruption ends as a whole.

passed=0 failed=0 skipped=0
logs=$(mktemp -d)
job='' beside=''
# Tests run anew each time. Without this flag Go repeats the result of tests whose code and files are unchanged.
fresh=(-count=1)

# Ends what still runs. A script with jobs of its own names them.
finish() { # jobs...
	local group
	trap - EXIT
	trap '' INT TERM
	for group in $job $beside "$@"; do
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
	local name=$1 folder=$2 began=$SECONDS
	shift 2
	echo "== $name"
	[ -f "$folder/build.ninja" ] || run meson setup "$folder" "$@" >"$logs/setup" 2>&1 ||
		{ cat "$logs/setup"; failed=$((failed + 1)); return; }
	run ninja -C "$folder" --quiet >"$logs/build" 2>&1 ||
		{ cat "$logs/build"; failed=$((failed + 1)); return; }
	run meson test -C "$folder" --no-rebuild --print-errorlogs >"$logs/meson" 2>&1
	report_meson $? $((SECONDS - began))
}

report_meson() { # status, seconds
	local status=$1 bad
	grep -vE '^(ninja|Full log|$)' "$logs/meson"
	echo "built and run in $2 s"
	passed=$((passed + $(count "$logs/meson" '^Ok:')))
	bad=$(($(count "$logs/meson" '^Fail:') + $(count "$logs/meson" '^Timeout:') + $(count "$logs/meson" '^Unexpected Pass:')))
	[ "$status" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1 # meson itself came to grief
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
	CGO_ENABLED=${CGO_ENABLED:-0} scripts/go.sh test $suite "${fresh[@]}" -json "${@:2}" >"$logs/$1" 2>"$logs/$1.err"
}

run_go() { # suite, name, flags...
	local began=$SECONDS
	echo "== $2"
	run go_test "$1" "${@:3}"
	report_go "$1" $? $((SECONDS - began))
}

# Beside what follows, and its report comes later. One at a time.
start_go() { # suite, flags...
	go_test "$@" >"$logs/$1.said" &
	beside=$!
}

finish_go() { # suite, name
	local status began=$SECONDS
	echo "== $2"
	wait "$beside"
	status=$?
	beside=''
	cat "$logs/$1.said"
	echo "waited for it another $((SECONDS - began)) s"
	report_go "$1" $status
}

report_go() { # suite, status, seconds if it was begun just before
	local log=$logs/$1
	events() { grep -c "\"Action\":\"$1\".*\"Test\":" "$log"; }
	if [ "$2" -ne 0 ]; then
		cat "$log.err"
		told fail "$log"
	fi
	report_counts "$2" "$(events pass)" "$(events fail)" "$(events skip)" "${3:-}"
}

# Something failed where the status says so.
report_counts() { # status, passed, failed, skipped, seconds if they are known
	local bad=$3
	[ "$1" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
	echo "$2 passed, $bad failed, $4 skipped${5:+, in $5 s}"
	passed=$((passed + $2)) failed=$((failed + bad)) skipped=$((skipped + $4))
}

# What tests of Go said that ended with that action.
told() { # fail or skip, log
	awk -v action="$1" -f scripts/told.awk "$2" "$2"
}

# The last lines, and the exit status: 0 when nothing failed.
verdict() {
	if [ "${CI:-}" = true ] && [ $skipped -gt 0 ]; then
		echo "tests were skipped, and in CI none may be"
		failed=$((failed + skipped))
	fi
	echo
	echo "in $((SECONDS / 60)) min $((SECONDS % 60)) s"
	echo "$passed passed, $failed failed, $skipped skipped"
	[ $failed -eq 0 ]
}
