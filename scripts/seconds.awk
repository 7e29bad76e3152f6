# SPDX-License-Identifier: Apache-2.0
# Suite, test and seconds, without subtests, of the output of `go test`, with -json or -v.

match($0, /(^|"Output":")--- (PASS|FAIL): [^ /]+ \([0-9.]+s\)/) {
	split(substr($0, RSTART, RLENGTH), words, / \(?/)
	printf "%s\t%s\t%s\n", suite, words[3], words[4] + 0
}
