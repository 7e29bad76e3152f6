#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Says which commit this source is of, for what programs answer to --version: the same in every copy of the commit, and
# "+changes" behind it where the files are not the commit's. Without git it is unknown.
cd "$(dirname "$0")/.." || exit 1
# A copy that is no repository of its own is of no commit, though it may lie inside another repository.
[ -e .git ] && said=$(git --no-optional-locks describe --always --exclude='*' --abbrev=12 --dirty=+changes 2>/dev/null) ||
	said="unknown commit"
echo "$said"
