# SPDX-License-Identifier: Apache-2.0
# Prints the output of Go tests from the output of `go test -json`, which is given twice: first to learn which tests ended with `action`
# ("fail" or "skip"), then to print their output. A failed package's own output counts as failed.
#
#     awk -v action=fail -f events.awk -f told.awk LOG LOG

{ key = test() }

NR == FNR {
	if (field("Action") == action) ended[key] = 1
	next
}

field("Action") ~ /^(build-)?output$/ && (key in ended || action == "fail" && /"Action":"build-output"/) { print output() }
