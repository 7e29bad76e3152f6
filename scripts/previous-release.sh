#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the previous release from its tag, without its bill of materials and with the Debian packages that this machine has, and prints
# the folder of its clone in build-previous/, which has the files in out/release/. The previous release is the newest tag v* before this
# commit. Without one it prints nothing, and why not on stderr.
#
#   PREVIOUS=COMMIT  another tag or commit, not older than the first that has `make release`
set -eu
cd "$(dirname "$0")/.."
release=${PREVIOUS:-$(git tag --list 'v*' --merged HEAD --no-contains HEAD --sort=-version:refname | head -n 1)}
if [ -z "$release" ]; then
	echo "There is no release yet, no tag v* in the history here (fetch tags, or name a commit with PREVIOUS)" >&2
	exit 0
fi
commit=$(git rev-parse --verify --quiet "$release^{commit}") || {
	echo "previous-release.sh: the history here has no commit $release; fetch it (git fetch --unshallow --tags), or name another with PREVIOUS" >&2
	exit 1
}
clone=$PWD/build-previous/$commit
if [ ! -d "$clone" ]; then # the name appears last, so that an interrupted clone is made again
	rm -rf "$clone.new"
	git clone -q --no-checkout . "$clone.new"
	git -C "$clone.new" checkout -q "$commit"
	mv "$clone.new" "$clone"
fi
env -u MAKEFLAGS RELEASE_SBOM=no RELEASE_LOCKED='' RELEASE_KEY='' make --no-print-directory -C "$clone" release >&2
echo "$clone"
