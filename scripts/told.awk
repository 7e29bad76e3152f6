# SPDX-License-Identifier: Apache-2.0
# What tests of Go said, of the output of `go test -json`, which is given twice: first to learn which tests ended with `action`
# ("fail" or "skip"), then to print their output. A failed package's own output counts as failed.
#
#     awk -v action=fail -f told.awk LOG LOG

function field(name) {
	return match($0, "\"" name "\":\"[^\"]*\"") ? substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 5) : ""
}

{ key = field("Package") " " field("Test") }

NR == FNR {
	if (field("Action") == action) ended[key] = 1
	next
}

field("Action") ~ /^(build-)?output$/ && (key in ended || action == "fail" && /"Action":"build-output"/) {
	text = $0
	sub(/.*"Output":"/, "", text)
	sub(/(\\n)?"[^"]*$/, "", text)
	gsub(/\\t/, "\t", text); gsub(/\\n/, "\n", text); gsub(/\\"/, "\"", text)
	gsub(/\\u003c/, "<", text); gsub(/\\u003e/, ">", text); gsub(/\\u0026/, "\\&", text)
	print text
}
