#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the arguments of `go test` for a suite of scripts/suites: -C MODULE, tags, tests, packages. More flags may follow.
# Usage: go test $(scripts/suite.sh NAME) -count=1
set -eu
scripts=$(dirname "$0")
line=$(awk -v name="${1:?usage: suite.sh NAME}" '
	$1 == name {
		line = "-C " $3
		if ($4 != "-") line = line " -tags=" $4
		if ($5 != "-") line = line " -run=" $5
		for (i = 6; i <= NF; i++) line = line " " $i
		print line
	}' "$scripts/suites" | grep .) || { echo "suite.sh: there is no suite $1 in scripts/suites" >&2; exit 1; }
case "$line" in
*-run=@*)
	tag=${line#*-run=@} folder=${line##* }
	tag=${tag%% *}
	tests=$("$scripts/tagged.sh" "$tag" "$scripts/../${folder%/...}")
	[ -n "$tests" ] || { echo "suite.sh: no test of $folder is tagged $tag" >&2; exit 1; }
	line="${line%%-run=@*}-run=$tests${line#*-run=@"$tag"}"
	;;
esac
echo "$line"
