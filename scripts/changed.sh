#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Succeeds if files of the given folders differ between the base and HEAD or the working tree, or if that cannot be known. Tests of
# tools, such as the test cluster, are left out of CI where this fails; make nightly runs them always (KTSN_ALL=1).
# The base is KTSN_BASE, else where HEAD left origin/main, else the last tag. Outside CI everything runs.
# Usage: changed.sh FOLDER...
set -eu
cd "$(dirname "$0")/.."
[ "${CI:-}" = true ] && [ "${KTSN_ALL:-}" != 1 ] || exit 0
head=$(git rev-parse HEAD 2>/dev/null) || exit 0
forked=$(git merge-base HEAD origin/main 2>/dev/null || true)
tag=$(git describe --tags --abbrev=0 2>/dev/null || true)
for base in "${KTSN_BASE:-}" "$forked" "$tag"; do
	if [ -z "$base" ] || ! commit=$(git rev-parse --verify --quiet "$base^{commit}") || [ "$commit" = "$head" ]; then continue; fi
	if git diff --quiet "$commit" -- "$@" 2>/dev/null; then exit 1; fi
	exit 0
done
