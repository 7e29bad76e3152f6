#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ktsnd and libktsn.so of the previous release beside those of this one, with real processes and packets: each takes over from the other
# under load, this one also as an instance, opens sockets for the other's library, and gets the other's rings back. The previous release
# is built from the history, in build-previous/. Called by `make previous`, after the build.
#
#   PREVIOUS=COMMIT  another one
set -um # -m: what runs is a process group, which an interruption ends as a whole
cd "$(dirname "$0")/.." || exit 1
. scripts/tally.sh
commit=${PREVIOUS:-76fe91b029dc9aa30921292bc60eeec85ff2063a}
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

git cat-file -e "$commit^{commit}" 2>/dev/null || {
	echo "previous.sh: the history here has no commit $commit; fetch it (git fetch --unshallow), or name another with PREVIOUS" >&2
	exit 1
}
build || { echo "previous.sh: cannot build commit $commit; see above" >&2; exit 1; }
run_go previous "beside the release of commit ${commit:0:7}"
verdict
