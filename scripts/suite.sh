#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints what `go test` is told of a suite of scripts/suites: -C MODULE, tags, which tests, packages. Other flags come behind.
# Usage: go test $(scripts/suite.sh NAME) -count=1
set -eu
awk -v name="${1:?usage: suite.sh NAME}" '
	$1 == name {
		line = "-C " $3
		if ($4 != "-") line = line " -tags=" $4
		if ($5 != "-") line = line " -run=" $5
		for (i = 6; i <= NF; i++) line = line " " $i
		print line
	}' "$(dirname "$0")/suites" | grep . || { echo "suite.sh: there is no suite $1 in scripts/suites" >&2; exit 1; }
