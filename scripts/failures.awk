# SPDX-License-Identifier: Apache-2.0
# Prints the Go tests that failed with the first and last lines of their output, from the output of `go test -json`: the first error may
# stand before long logs. Failed subtests are named instead of their test, and a package only if none of its tests failed. A test
# without an end ran into the timeout. With `skips`, skipped tests count as failed.
#
#     awk -v first=10 -v last=15 -v skips=0 -f events.awk -f failures.awk LOG

{ key = test(); action = field("Action") }

!(key in seen) { seen[key]; keys[++count] = key }

action ~ /^(run|cont|fail|build-fail)$/ { failed[key] }
action ~ /^(pause|pass|skip)$/ { delete failed[key] }
action == "skip" && skips && field("Test") { failed[key] }

action ~ /^(build-)?output$/ {
	text = output()
	if (text ~ /^goroutine [0-9]+ /) traces[key]++ # one of them is enough
	if (traces[key] < 2 && text !~ /^=== |^ *$/) lines[key, said[key]++] = text
}

END {
	for (key in failed) {
		above = key
		while (sub(/\/[^\/ ]*$/, "", above) && above ~ / /) parent[above]
		sub(/ .*/, " ", above)
		if (above != key) parent[above]
	}
	for (i = 1; i <= count; i++) {
		key = keys[i]
		if (!(key in failed) || key in parent) continue
		print "-- " key
		for (line = 0; line < said[key]; line++) {
			if (line < first || line >= said[key] - last) print "   " lines[key, line]
			else if (line == first) print "   ... " said[key] - last - first " more lines"
		}
	}
}
