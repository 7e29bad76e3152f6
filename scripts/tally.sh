# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Runs suites of tests and counts their results. Sourced by test.sh, unit.sh, soak.sh and e2e.sh, which call `verdict` at the end.
# Each job is a process group (set -m), so that an interruption ends all of its processes.

umask 022 # tests start programs as other users, who read what the tests write
passed=0 failed=0 skipped=0
failures='' # a line "-- NAME" for each failed test, and the last lines of its output; for Go tests also the first lines
first=10 last=15
strict=0 skips_of_c='' # in CI no test may be skipped
[ "${CI:-}" != true ] || strict=1 skips_of_c='|SKIP'
logs=$(mktemp -d)
job=''
declare -A beside=() # suites that run in the background, and their processes
# Without this flag Go repeats the results of tests whose code and files are unchanged.
fresh=(-count=1)

# Ends all jobs. A script passes jobs that it started itself.
finish() { # jobs...
	local group
	trap - EXIT
	trap '' INT TERM
	for group in $job "${beside[@]}" "$@"; do
		kill -- "-$group" 2>/dev/null
		wait "$group" 2>/dev/null
	done
	rm -rf "$logs"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Runs a command so that a trap is executed at once: bash defers traps until a foreground command ends, but not while it waits.
run() {
	"$@" &
	job=$!
	wait "$job"
	local status=$?
	job=''
	return $status
}

# Records a failure that no test reports, with the last lines of its log.
failure() { # name, log
	failures+=$(echo "-- $1"; tail -n $last "$2" | sed 's/^/   /')$'\n'
}

failures_of() { # suite, log, failed lines, other lines
	failures+=$(awk -v last=$last -v failed="$3" -v others="$4" -f scripts/blocks.awk "$2" | sed "s|^-- |-- $1: |")$'\n'
}

# Records failed tests, and skipped ones where none may be skipped. Returns 1 if there are none.
failures_of_go() { # output of `go test -json`
	local text
	text=$(awk -v first=$first -v last=$last -v skips=$strict -f scripts/events.awk -f scripts/failures.awk "$1")
	failures+=$text$'\n'
	[ -n "$text" ]
}

failures_of_go_text() { # suite, output of `go test -v`
	scripts/go.sh tool test2json -p "$1" <"$2" >"$2.json"
	failures_of_go "$2.json"
}

# Unit tests of C, as shipped or with a sanitizer: all of them, or those in $only, of which only the programs are built.
only=()
run_meson() { # name, build folder, meson setup arguments...
	local name=$1 folder=$2 began=$SECONDS status
	shift 2
	echo "== $name"
	[ -f "$folder/build.ninja" ] || run meson setup "$folder" "$@" >"$logs/setup" 2>&1 ||
		{ cat "$logs/setup"; failure "$name: meson setup" "$logs/setup"; failed=$((failed + 1)); return; }
	run ninja -C "$folder" --quiet "${only[@]/#/datapath/tests/unit/test_}" >"$logs/build" 2>&1 ||
		{ cat "$logs/build"; failure "$name: ninja" "$logs/build"; failed=$((failed + 1)); return; }
	run meson test -C "$folder" --no-rebuild --print-errorlogs "${only[@]}" >"$logs/meson.said" 2>&1
	status=$?
	awk -v log_file="$folder/meson-logs/testlog.txt" -f scripts/tap.awk "$logs/meson.said" >"$logs/meson" || cp "$logs/meson.said" "$logs/meson"
	report_meson "$name" $status $((SECONDS - began))
}

report_meson() { # name, status, seconds
	local status=$2 bad
	grep -vE '^(ninja|Full log|$)' "$logs/meson"
	echo "built and run in $3 s"
	took "$1" "$3"
	passed=$((passed + $(count "$logs/meson" '^Ok:')))
	bad=$(($(count "$logs/meson" '^Fail:') + $(count "$logs/meson" '^Timeout:') + $(count "$logs/meson" '^Unexpected Pass:')))
	[ "$status" -eq 0 ] || [ "$bad" -gt 0 ] || { bad=1; failure "$1: meson" "$logs/meson"; } # meson itself failed
	failed=$((failed + bad))
	failures_of "$1" "$logs/meson" "^ *[0-9]+/[0-9]+ .* (FAIL|ERROR|TIMEOUT|UNEXPECTEDPASS${skips_of_c}) " \
		'^ *[0-9]+/[0-9]+ .* (OK|SKIP|EXPECTEDFAIL) |^Summary of Failures|^Ok:'
	skipped=$((skipped + $(count "$logs/meson" '^Skipped:')))
}

count() { # file, line's beginning
	awk -v line="$2" '$0 ~ line { sum += $NF } END { print sum + 0 }' "$1"
}

# Runs a Go suite. Its log has one event in each line.
go_test() { # suite, flags...
	local suite
	suite=$(scripts/suite.sh "$1") || return
	# shellcheck disable=SC2086 # a list of words
	scripts/go.sh test $suite "${fresh[@]}" -json "${@:2}" >"$logs/$1" 2>"$logs/$1.err"
}

go_test_timed() { # suite, flags...
	local began=$SECONDS status
	go_test "$@"
	status=$?
	echo $((SECONDS - began)) >"$logs/$1.seconds"
	return $status
}

run_go() { # suite, name, flags...
	echo "== $2"
	run go_test_timed "$1" "${@:3}"
	report_go "$1" $?
}

# Starts a suite in the background, with a lower priority if nice_beside is set; finish_go reports it.
start_go() { # suite, flags...
	{
		[ -z "${nice_beside:-}" ] || renice -n "$nice_beside" -p "$BASHPID" >/dev/null
		go_test_timed "$@"
	} >"$logs/$1.said" &
	beside[$1]=$!
}

finish_go() { # suite, name
	local status began=$SECONDS
	echo "== $2"
	wait "${beside[$1]}"
	status=$?
	unset "beside[$1]"
	cat "$logs/$1.said"
	echo "waited for it another $((SECONDS - began)) s"
	report_go "$1" $status
}

report_go() { # suite, status
	local log=$logs/$1
	events() { grep -c "\"Action\":\"$1\".*\"Test\":" "$log"; }
	if [ "$2" -ne 0 ]; then
		cat "$log.err"
		told fail "$log"
	fi
	[ "$2" -eq 0 ] && [ $strict = 0 ] || failures_of_go "$log" || [ "$2" -eq 0 ] || failure "$1" "$log.err"
	report_counts "$1" "$2" "$(events pass)" "$(events fail)" "$(events skip)"
}

# Counts one failure if the status is not 0 and no test failed.
report_counts() { # suite, status, passed, failed, skipped
	local bad=$4 seconds
	seconds=$(cat "$logs/$1.seconds")
	[ "$2" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
	echo "$3 passed, $bad failed, $5 skipped, in $seconds s"
	passed=$((passed + $3)) failed=$((failed + bad)) skipped=$((skipped + $5))
	took "$1" "$seconds"
	awk -v suite="$1" -f scripts/seconds.awk "$logs/$1" >>"$logs/timings"
}

# Tests of tools run if the tool changed, see changed.sh.
changed() { # what, folders...
	scripts/changed.sh "${@:2}" && return
	echo "== $1: left out, because nothing changed in ${*:2}; make nightly runs them"
	return 1
}

took() { # suite, seconds
	printf '%s\t\t%s\n' "$1" "$2" >>"$logs/timings"
}

# Prints the output of Go tests that ended with this action.
told() { # fail or skip, log
	awk -v action="$1" -f scripts/events.awk -f scripts/told.awk "$2" "$2"
}

# Repeats the failures at the end, because CI often shows only the end of a long log. Their names come last.
repeat_failures() {
	[ -n "${failures//$'\n'/}" ] || return
	echo
	echo "== Failures, with some lines of each"
	grep -v '^$' <<<"$failures"
	echo
	echo "Failed:"
	sed -n 's/^-- /   /p' <<<"$failures"
}

# Prints the seconds of each suite and of the slowest tests. out/timings.tsv has the last run of each suite: suite, test or nothing,
# seconds.
report_timings() {
	local kept=out/timings.tsv
	[ -s "$logs/timings" ] || return
	mkdir -p out
	touch $kept
	awk -F '\t' 'NR == FNR { ran[$1]; print; next } !($1 in ran)' "$logs/timings" $kept >"$logs/kept" && cp "$logs/kept" $kept
	echo
	echo "== Seconds of each suite, and of the twenty slowest tests"
	awk -F '\t' '!$2 { printf "%8d  %s\n", $3, $1 }' "$logs/timings"
	echo
	sort -t "$(printf '\t')" -k 3,3rn "$logs/timings" | awk -F '\t' '$2 && n++ < 20 { printf "%8.1f  %s %s\n", $3, $1, $2 }'
}

# Prints the last lines. Returns 0 if nothing failed.
verdict() {
	report_timings
	if [ $strict = 1 ] && [ $skipped -gt 0 ]; then
		echo "tests were skipped, and in CI none may be"
		failed=$((failed + skipped))
	fi
	[ $failed -eq 0 ] || repeat_failures
	echo
	echo "in $((SECONDS / 60)) min $((SECONDS % 60)) s"
	echo "$passed passed, $failed failed, $skipped skipped"
	[ $failed -eq 0 ]
}
