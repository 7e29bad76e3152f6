#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the version of a release that is made of this commit: X.Y.Z with the tag vX.Y.Z, which must be that of the file VERSION and of
# an unchanged tree, else X.Y.Z-dev.gCOMMIT. With a hyphen and a point it is a valid version of charts, tag of images, and value of labels,
# which one with "+" is not.
set -eu
cd "$(dirname "$0")/.."
number=$(cat internal/shared/version/VERSION)
commit=$(scripts/commit.sh)
if ! [ -e .git ]; then
	echo "$number-dev.unknown"
	exit 0
fi
tags=$(git tag --points-at HEAD --list 'v[0-9]*')
for tag in $tags; do
	[ "$tag" = "v$number" ] || {
		echo "release-version.sh: this commit has the tag $tag, and internal/shared/version/VERSION has $number; change one of them" >&2
		exit 1
	}
done
if [ -z "$tags" ]; then
	echo "$number-dev.g$(echo "$commit" | tr + .)"
	exit 0
fi
# Untracked files can be in the release, too: charts, packages and images are found by their names.
[ -z "$(git --no-optional-locks status --porcelain)" ] || {
	echo "release-version.sh: files differ from the tag $tags; commit or remove the changes (git status)" >&2
	exit 1
}
echo "$number"
