#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The pure stages stay pure: their libraries need only memory functions, assert and each other: no system
# call, no clock, no allocation.
#
#     check_pure.sh library.a...
set -eu

# Symbols that the compiler emits or assert() needs; then those of the sanitizers.
allowed='memcpy|memmove|memset|memcmp|strcmp|__stack_chk_fail|__assert_fail|_GLOBAL_OFFSET_TABLE_'
allowed="$allowed|__(asan|ubsan|tsan)_[a-z0-9_]*|ktsn_[a-z0-9_]*"

if [ $# -eq 0 ]; then
	echo "usage: check_pure.sh library.a..."
	exit 2
fi

failed=0
for library in "$@"; do
	# In a variable first: a pipe would hide that nm failed.
	symbols=$(nm -u "$library")
	foreign=$(printf '%s\n' "$symbols" | awk '$1 == "U" || $1 == "w" {print $2}' | sort -u |
		grep -Evx "$allowed" || true)
	if [ -n "$foreign" ]; then
		printf '%s is not pure, it uses:\n%s\n' "$library" "$foreign"
		failed=1
	fi
done
exit $failed
