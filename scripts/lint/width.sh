#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails for lines of C that exceed the ColumnLimit of .clang-format, with tabs of 8: clang-format keeps what it cannot break.
# Usage: width.sh FILES
set -eu
limit=$(sed -n 's/^ColumnLimit: *//p' "$(dirname "$0")/../../.clang-format")
awk -v limit="$limit" '
	{
		line = $0
		while ((at = index(line, "\t")) > 0)
			line = substr(line, 1, at - 1) sprintf("%*s", 8 - (at - 1) % 8, "") substr(line, at + 1)
		if (length(line) > limit) {
			printf "%s:%d: %d columns, the limit is %d\n", FILENAME, FNR, length(line), limit
			bad = 1
		}
	}
	END { exit bad }' "$@"
