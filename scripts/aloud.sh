# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# As those of tally.sh, but for what is seen meanwhile: one line a test and its result, subtests included, and what failed tests say.
# A cluster's tests take long.
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
