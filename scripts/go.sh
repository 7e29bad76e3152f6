#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the go command. Installs one from Debian's backports if none can fetch the toolchain that go.mod names (Go 1.21 or newer can).
# Without C unless CGO_ENABLED=1, so that tests and programs share the compiled packages. Usage: go.sh build ./...
set -eu

backports_go=/usr/lib/go-1.23/bin/go

# Fetch the toolchain of go.mod; Debian's package would not by default.
new_enough() {
	[ -n "$1" ] && version=$("$1" env GOVERSION 2>/dev/null) || return 1
	minor=$(echo "$version" | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
	[ "${minor:-0}" -ge 21 ]
}

usable() {
	new_enough "$1" && { "$1" version >/dev/null 2>&1 || GOTOOLCHAIN=auto "$1" version >/dev/null 2>&1; }
}

install_from_backports() {
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "Go is missing or older than 1.21. As root on Debian 12, enable bookworm-backports and" >&2
		echo "install golang-1.23-go, or install a current Go from https://go.dev/dl/." >&2
		exit 1
	fi
	echo "Installing Go from Debian's backports" >&2
	# Use the machine's mirror and key.
	uri=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
		sed -n 's/^URIs: *\([^ ]*debian\/\{0,1\}\)$/\1/p; s/^deb .*\(http[^ ]*debian\/\{0,1\}\) bookworm .*/\1/p' |
		head -n 1)
	list=$(mktemp -d)
	trap 'rm -rf "$list"' EXIT
	mkdir -p "$list/lists/partial"
	echo "deb ${uri:-http://deb.debian.org/debian} bookworm-backports main" >"$list/sources.list"
	# On the command line, so that the machine's own sources stay unchanged.
	set -- -qq -o Dir::Etc::sourcelist="$list/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State::lists="$list/lists"
	DEBIAN_FRONTEND=noninteractive
	export DEBIAN_FRONTEND
	apt-get "$@" update >&2
	apt-get "$@" install --no-install-recommends golang-1.23-go golang-1.23-src >/dev/null
	rm -rf "$list"
}

go=$(command -v go || true)
if ! usable "$go"; then
	[ -x "$backports_go" ] || install_from_backports
	go=$backports_go
fi
# A Go that is older than go.mod requires fetches the toolchain that go.mod names.
"$go" version >/dev/null 2>&1 || export GOTOOLCHAIN=auto
case "$go" in "$backports_go") export GOTOOLCHAIN=auto ;; esac
export CGO_ENABLED="${CGO_ENABLED:-0}"
exec "$go" "$@"
