#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs other projects' tests without and with libktsn.so, and compares the result of each test (test/netns/foreign_test.go). Called by
# `make foreign`, after the build.
#
# build-foreign/ has CPython and its tests, libuv, libevent, the kernel's self-tests for time stamps and SO_TXTIME, all from Debian in the
# versions and with the checksums of scripts/foreign/packages; and tokio, by scripts/foreign/tokio/Cargo.lock. Nothing of it is installed.
#
#   FOREIGN_RUN=REGEXP  only these suites, for example python/test_socket or libuv
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/separate-apt.sh
pins=$PWD/scripts/foreign/packages
tokio_tests="tcp_accept tcp_connect tcp_echo tcp_into_split tcp_into_std tcp_peek tcp_shutdown tcp_socket tcp_split tcp_stream
	udp uds_datagram uds_socket uds_stream net_lookup_host net_panic"

fetch() {
	local file package version
	prepare_apt "deb bookworm main" "deb-src bookworm main"
	mkdir -p packages
	while read -r _ file; do
		IFS=_ read -r package version _ <<<"${file%.dsc}"
		case $file in
		*.dsc) (cd packages && apt apt-get source --download-only "$package=$version") ;;
		*) (cd packages && apt apt-get download "$package=$version") ;;
		esac || { echo "foreign.sh: Debian has another version of $package now: change scripts/foreign/packages" >&2; return 1; }
	done <"$pins"
	(cd packages && sha256sum --check --quiet "$pins")
}

build_python() {
	for package in packages/*python3.11*.deb; do
		dpkg-deb -x "$package" python
	done
}

build_libuv() {
	dpkg-source --no-copy -x packages/libuv1_*.dsc libuv
	cmake -S libuv -B libuv/build -DCMAKE_BUILD_TYPE=RelWithDebInfo
	cmake --build libuv/build --target uv_run_tests
}

build_libevent() {
	dpkg-source --no-copy -x packages/libevent_*.dsc libevent
	cmake -S libevent -B libevent/build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DEVENT__LIBRARY_TYPE=SHARED \
		-DEVENT__DISABLE_OPENSSL=ON -DEVENT__DISABLE_BENCHMARK=ON -DEVENT__DISABLE_SAMPLES=ON
	cmake --build libevent/build --target regress
}

# The names of cargo's programs have a suffix.
build_tokio() {
	local test built
	cp -r ../scripts/foreign/tokio tokio
	touch tokio/none.rs
	for test in $tokio_tests; do
		printf '[[test]]\nname = "%s"\npath = "vendor/tokio/tests/%s.rs"\n' "$test" "$test"
	done >>tokio/Cargo.toml
	cd tokio
	mkdir .cargo
	cargo vendor --locked vendor >.cargo/config.toml
	cargo test --offline --locked --no-run
	for test in $tokio_tests; do
		built=$(find target/debug/deps -name "$test-*" -type f -perm -u=x)
		mv "$built" "$test"
	done
}

# In an emulated machine programs start late: the times of so_txtime and what both programs tolerate are 25 times longer.
build_selftests() {
	local name
	dpkg-deb --fsys-tarfile packages/linux-source-*.deb | tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
		tar -xJ --strip-components=3 --wildcards '*/tools/testing/selftests/net/*' '*/tools/testing/selftests/kselftest.h'
	cd selftests/net
	sed -i 's/+ 0.1 seconds/+ 2.5 seconds/; s/\([ab]\),10\b/\1,250/g; s/\([ab]\),20\b/\1,500/g; s/delta 400000/delta 10000000/' so_txtime.sh
	sed -i 's/variance_us\t= 4000/variance_us = 100000/; s/{ .tv_usec = 100 \* 1000 }/{ 2, 500 * 1000 }/' so_txtime.c
	sed -i 's/timeout = 100;/timeout = 2500;/; s/tolerance_usec = 500;/tolerance_usec = 12500;/' txtimestamp.c
	sed -i 's/usleep(20000)/usleep(500000)/' rxtimestamp.c
	for name in so_txtime txtimestamp rxtimestamp; do
		gcc -O2 -w -o "$name" "$name.c"
	done
	# shellcheck disable=SC2016 # of the script that is written
	printf '#!/bin/sh\ncd "${0%%%%/run}" && exec ./in_netns.sh "./$1.sh"\n' >run
	chmod +x run
}

if ! cat "$pins" scripts/foreign/tokio/Cargo.* | cmp -s - build-foreign/pins; then
	rm -rf build-foreign
	mkdir -p build-foreign/log
	cat "$pins" scripts/foreign/tokio/Cargo.* >build-foreign/pins
fi
work=$PWD/build-foreign
cd "$work"
for part in fetch build_python build_libuv build_libevent build_tokio build_selftests; do
	[ ! -f "log/$part.done" ] || continue
	rm -rf "${part#build_}"
	"$part" >"log/$part" 2>&1 & # errexit holds in there, unlike to the left of ||
	wait $! || { tail -n 20 "log/$part" >&2; echo "foreign.sh: $part failed; its log is build-foreign/log/$part" >&2; exit 1; }
	touch "log/$part.done"
done
cd ..
exec scripts/tabletest.sh foreign 6h
