# SPDX-License-Identifier: Apache-2.0
# Prints failed tests with the last lines of their output, from a log in which one line begins the output of a test. `failed` matches
# the lines of failed tests, and `others` other lines that end a test's output.
#
#     awk -v last=15 -v failed=REGEX -v others=REGEX -f blocks.awk LOG

function show(    line) {
	if (name == "" || shown[name]++) return # a summary names it again
	print "-- " name
	for (line = said > last ? said - last : 0; line < said; line++) print "   " lines[line]
	name = ""
}

# For programs that meson understands, the numbers and names of failed checks precede the output.
$1 == "▶" { checks[$2] = checks[$2] "\n   " $0 }

$0 ~ failed {
	show()
	name = $0 checks[$1]
	sub(/^ +/, "", name)
	said = 0
	next
}

$0 ~ others { show() }

# Skip the sanitizer's memory dump, which is longer than the report.
/^Shadow bytes around/ { picture = 1 }
/^==/ { picture = 0 }

name != "" && !picture && !/^( *$|>>> |―)/ { lines[said++] = $0 }

END { show() }
