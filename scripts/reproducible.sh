#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the release of this commit in two clones in different folders, and compares all bytes. Prints the counts in its last line. Called
# by `make reproducible`. Both builds compile C without ccache; the second has an empty cache of Go, and files that only the owner may read.
set -euo pipefail
cd "$(dirname "$0")/.."
folders=$(mktemp -d)
trap 'rm -rf "$folders"' EXIT
clones=("$folders/a" "$folders/another folder/with a longer name")
git clone -q . "${clones[0]}" # the second is a clone of it: of the same commit, whatever is committed here meanwhile
build() { # folder
	env -u MAKEFLAGS CCACHE_DISABLE=1 RELEASE_KEY='' make --no-print-directory -C "$1" release
}
build "${clones[0]}"
(umask 077 && git clone -q "${clones[0]}" "${clones[1]}" && GOCACHE=$folders/cache build "${clones[1]}")
passed=0 failed=0
for file in "${clones[0]}"/out/release/*; do
	if cmp "$file" "${clones[1]}/out/release/${file##*/}"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
done
extra=$(diff -rq "${clones[0]}/out/release" "${clones[1]}/out/release" | grep -c '^Only in' || true)
echo "$passed passed, $((failed + extra)) failed, 0 skipped"
[ $((failed + extra)) -eq 0 ]
