#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prepares the QEMU of bookworm-backports, once, for tests of features that Debian 12's QEMU lacks (igb) or implements wrongly (vhost-user
# with interrupt vectors), and prints its folder:
#   qemu      the program and its files
#   version   the packages' versions
# Nothing is installed: the packages are fetched and unpacked. They use the libraries of Debian 12's QEMU, which must be installed.
# Remove the folder to get newer ones.
set -eu
# shellcheck source=scripts/separate-apt.sh
. "$(dirname "$0")/separate-apt.sh"

suite=bookworm-backports
packages="qemu-system-x86 qemu-system-common qemu-system-data seabios"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/kubernetsn/guest-qemu
whole() { [ -f "$cache/version" ]; }
if whole; then
	echo "$cache"
	exit 0
fi

for program in apt-get dpkg-deb qemu-system-x86_64; do
	command -v $program >/dev/null && continue
	echo "$program is missing: on Debian 12, run scripts/install-deps.sh conformance" >&2
	exit 1
done
mkdir -p "$(dirname "$cache")"
work=$(mktemp -d "$cache.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work"

mkdir -p out/qemu
prepare_apt "deb $suite main"
echo "Fetching QEMU of $suite for virtual machines" >&2
# shellcheck disable=SC2086 # a list of words
apt apt-get download $packages >&2
for package in ./*.deb; do
	dpkg-deb -x "$package" out/qemu
	# shellcheck disable=SC2016 # a format of dpkg-deb's own
	dpkg-deb -W --showformat '${Package} ${Version}\n' "$package"
done >out/version
if ldd out/qemu/usr/bin/qemu-system-x86_64 | grep 'not found' >&2; then
	echo "QEMU of $suite needs these libraries; install qemu-system-x86 of Debian 12" >&2
	exit 1
fi
# Another run may have been faster.
whole || { rm -rf "$cache" && mv out "$cache"; }
echo "$cache"
