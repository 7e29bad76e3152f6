#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs ktsnd and libktsn.so of the previous release next to those of this one, with real processes and packets: each takes over from the
# other under load, this one also as an instance, opens sockets for the other's library, and gets the other's rings back. The programs are
# those of the release's Debian packages, which scripts/previous-release.sh builds from its tag. The recorded bytes of the release must be
# as they were then. Called by `make previous`, after the build.
#
#   PREVIOUS=COMMIT  tests against another tag or commit
set -um # -m: each job is a process group, so that an interruption ends all of its processes
cd "$(dirname "$0")/.." || exit 1
. scripts/tally.sh
clone=$(scripts/previous-release.sh) || { echo "previous.sh: cannot build the previous release; see above" >&2; exit 1; }
if [ -z "$clone" ]; then
	echo "previous.sh: nothing to test"
	exit 0
fi
commit=$(git -C "$clone" rev-parse HEAD)
export KTSN_BIN_DIR=$PWD/bin KTSN_PREVIOUS=$clone/packages/programs

# Extracts the programs of the release's packages.
extract() {
	local package
	rm -rf "$clone/packages"
	mkdir -p "$KTSN_PREVIOUS" || return
	for package in ktsnd libktsn; do
		dpkg-deb -x "$clone"/out/release/"$package"_*.deb "$clone/packages" || return
	done
	cp "$clone"/packages/usr/{sbin/ktsnd,lib/ktsn/libktsn.so} "$KTSN_PREVIOUS/"
}

# The tests of this version replay the bytes that the release exchanged.
check_recorded() {
	local number
	number=$(git show "$commit:internal/shared/version/VERSION") || return
	git cat-file -e "$commit:datapath/tests/recorded/$number" 2>/dev/null || {
		echo "the previous release ($commit) has no datapath/tests/recorded/$number: run \`make record\` before a tag"
		return 1
	}
	git diff --quiet "$commit" -- "datapath/tests/recorded/$number" && return
	echo "datapath/tests/recorded/$number differs from the one of the previous release ($commit), which has the bytes of that release; restore it"
	return 1
}

extract || exit 1
if check_recorded >"$logs/recorded"; then
	passed=$((passed + 1))
else
	cat "$logs/recorded"
	failure "recorded bytes" "$logs/recorded"
	failed=$((failed + 1))
fi
run_go previous "next to the previous release"
verdict
