#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs ktsnd and libktsn.so of the previous release next to those of this one, with real processes and packets: each takes over from the
# other under load, this one also as an instance, opens sockets for the other's library, and gets the other's rings back. The previous
# release is the newest tag v* before this commit; it is built from the history, in build-previous/. Called by `make previous`, after the
# build.
#
#   PREVIOUS=COMMIT  tests against another tag or commit
set -um # -m: each job is a process group, so that an interruption ends all of its processes
cd "$(dirname "$0")/.." || exit 1
. scripts/tally.sh
release=${PREVIOUS:-$(git tag --list 'v*' --merged HEAD --no-contains HEAD --sort=-version:refname | head -n 1)}
if [ -z "$release" ]; then
	echo "previous.sh: nothing to test: there is no release yet, no tag v* in the history here (fetch tags, or name a commit with PREVIOUS)"
	exit 0
fi
commit=$(git rev-parse --verify --quiet "$release^{commit}") || {
	echo "previous.sh: the history here has no commit $release; fetch it (git fetch --unshallow --tags), or name another with PREVIOUS" >&2
	exit 1
}
sources=$PWD/build-previous/$commit
export KTSN_BIN_DIR=$PWD/bin KTSN_PREVIOUS=$sources/bin

build() {
	mkdir -p "$sources" || return
	git archive "$commit" | tar -x -C "$sources" || return
	[ -f "$sources/build/build.ninja" ] || meson setup "$sources/build" "$sources" >/dev/null || return
	ninja -C "$sources/build" --quiet datapath/daemon/ktsnd datapath/preload/libktsn.so || return
	mkdir -p "$KTSN_PREVIOUS" || return
	cp "$sources/build/datapath/daemon/ktsnd" "$sources/build/datapath/preload/libktsn.so" "$KTSN_PREVIOUS/"
}

build || { echo "previous.sh: cannot build $release; see above" >&2; exit 1; }
run_go previous "next to release $release"
verdict
