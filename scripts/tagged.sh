#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a regular expression for `go test -run`: the tests of a folder that begin with content(t) or timing(t). Files with build
# tags are left out. Usage: tagged.sh content|timing FOLDER
set -eu
find "${2:?usage: tagged.sh content|timing FOLDER}" -maxdepth 1 -name '*_test.go' -exec awk -v tag="$1" '
	FNR == 1 { skip = 0 }
	/^\/\/go:build/ { skip = 1 }
	/^func Test/ { name = $2; sub(/\(.*/, "", name) }
	!skip && $0 ~ "^\t" tag "\\(t\\)" { print name }' {} + | sort -u | paste -sd '|' | sed 's/.*/^(&)$/'
