#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the path of chronyd for tests: this machine's own, else Debian's, which is fetched and unpacked, once. Installed, it would replace
# systemd-timesyncd, and set this machine's clock. scripts/install-deps.sh test installs its libraries.
set -eu

PATH=$PATH:/usr/sbin:/sbin
command -v chronyd && exit 0

cache=${XDG_CACHE_HOME:-$HOME/.cache}/kubernetsn/chrony
if [ ! -x "$cache/usr/sbin/chronyd" ]; then
	for program in apt-get dpkg-deb; do
		command -v $program >/dev/null && continue
		echo "chronyd is missing, and so is $program to fetch it: install chrony" >&2
		exit 1
	done
	mkdir -p "$(dirname "$cache")"
	work=$(mktemp -d "$cache.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	cd "$work"
	echo "Fetching chrony for tests" >&2
	# Use separate package lists if the machine has none.
	apt-get -qq -o APT::Sandbox::User=root download chrony >&2 2>/dev/null || {
		mkdir -p lists/partial
		apt-get -qq -o Dir::State::lists="$work/lists" -o APT::Sandbox::User=root update >&2
		apt-get -qq -o Dir::State::lists="$work/lists" -o APT::Sandbox::User=root download chrony >&2
	}
	mkdir out
	dpkg-deb --fsys-tarfile chrony_*.deb | tar -x -C out ./usr/sbin/chronyd
	# Another run may have been faster.
	[ -x "$cache/usr/sbin/chronyd" ] || { rm -rf "$cache" && mv out "$cache"; }
fi
if ldd "$cache/usr/sbin/chronyd" | grep 'not found' >&2; then
	echo "these libraries of chronyd are missing: run scripts/install-deps.sh test" >&2
	exit 1
fi
echo "$cache/usr/sbin/chronyd"
