# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Replaces functions of tally.sh for suites that take long: prints each test with its result, subtests included, and the output of
# failed tests while the suite runs.
go_test() { # suite, flags...
	local suite
	suite=$(scripts/suite.sh "$1") || return
	# shellcheck disable=SC2086 # a list of words
	CGO_ENABLED=0 scripts/go.sh test $suite "${fresh[@]}" -v "${@:2}" 2>&1 | tee "$logs/$1" |
		grep --line-buffered -vE '^ *=== |^(PASS|FAIL|exit status)$|^(ok|\?|FAIL)\s'
	return "${PIPESTATUS[0]}"
}

count_go() { # suite, PASS, FAIL or SKIP
	grep -cE "^ *--- $2: " "$logs/$1"
}

report_go() { # suite, status
	[ "$2" -eq 0 ] && [ $strict = 0 ] || failures_of_go_text "$1" "$logs/$1" || [ "$2" -eq 0 ] || failure "$1" "$logs/$1"
	report_counts "$1" "$2" "$(count_go "$1" PASS)" "$(count_go "$1" FAIL)" "$(count_go "$1" SKIP)"
}
