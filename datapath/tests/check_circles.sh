#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No file of a module needs another one that needs it in turn: a header and the source of its name are one.
# Arguments: the modules' folders.
set -eu

# Pairs "user used" for tsort(1), which finds the circles.
module_includes()
{
	grep -HoE '^#include "[a-z0-9_]+\.h"' "$1"/*.[ch] |
		sed -E 's#^.*/([a-z0-9_]+)\.[ch]:\#include "([a-z0-9_]+)\.h"#\1 \2#' |
		while read -r user used; do
			if [ -e "$1/$used.h" ] && [ "$user" != "$used" ]; then
				echo "$user $used"
			fi
		done
}

for folder; do
	pairs=$(module_includes "$folder")
	if ! circles=$(echo "$pairs" | tsort 2>&1 >/dev/null); then
		echo "$folder: these files include each other in a circle:"
		echo "$circles"
		exit 1
	fi
done
