# SPDX-License-Identifier: Apache-2.0
# Adds to the output of `meson test` what failed inside each program, which meson writes into its log only. It comes behind the program's
# other output, of which a verdict shows the end.
# Usage: awk -v log_file=FOLDER/meson-logs/testlog.txt -f tap.awk OUTPUT
BEGIN {
	while ((getline < log_file) > 0) {
		if ($1 == "test:") { name = $NF; failed = 0 }
		if (/^(not )?ok /) failed = /^not/
		if (failed && /^(not ok|#)/) said[name] = said[name] "   " $0 "\n"
	}
	name = ""
}
/^ *[0-9]+\/[0-9]+ / || /^Summary of Failures/ || /^Ok:/ { printf "%s", said[name]; name = "" }
/^Summary of Failures/ { summary = 1 }
{ print }
!summary && /^ *[0-9]+\/[0-9]+ .* (FAIL|ERROR|TIMEOUT) / {
	name = $0
	sub(/ +(FAIL|ERROR|TIMEOUT) .*/, "", name)
	sub(/.* /, "", name)
}
END { printf "%s", said[name] }
