# SPDX-License-Identifier: Apache-2.0
# Reads a line of the output of `go test -json`. Used by told.awk and failures.awk.

function field(name) {
	return match($0, "\"" name "\":\"[^\"]*\"") ? substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 5) : ""
}

# The test, or the package if the event is not about a test. The compiler's messages about a package's tests name it, too.
function test(    package) {
	package = field("Package") field("ImportPath")
	sub(/ .*/, "", package)
	return package " " field("Test")
}

function output(    text) {
	text = $0
	sub(/.*"Output":"/, "", text)
	sub(/(\\n)?"[^"]*$/, "", text)
	gsub(/\\t/, "\t", text); gsub(/\\n/, "\n", text); gsub(/\\"/, "\"", text)
	gsub(/\\u003c/, "<", text); gsub(/\\u003e/, ">", text); gsub(/\\u0026/, "\\&", text)
	return text
}
