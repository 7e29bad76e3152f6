# SPDX-License-Identifier: Apache-2.0
# Prints suite, test and seconds for each test in the output of `go test -json` or `go test -v`, without subtests.

match($0, /(^|"Output":")--- (PASS|FAIL): [^ /]+ \([0-9.]+s\)/) {
	split(substr($0, RSTART, RLENGTH), words, / \(?/)
	printf "%s\t%s\t%s\n", suite, words[3], words[4] + 0
}
