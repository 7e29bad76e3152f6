#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the commit of this source, for the programs' --version: the same in every copy of the commit, with "+changes" if the files
# differ from it. Without git it is unknown.
cd "$(dirname "$0")/.." || exit 1
# A copy that is not a repository has no commit, even inside another repository.
[ -e .git ] && commit=$(git --no-optional-locks describe --always --exclude='*' --abbrev=12 --dirty=+changes 2>/dev/null) ||
	commit="unknown commit"
echo "$commit"
