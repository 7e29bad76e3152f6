#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the packages that a target of the Makefile needs, on Debian 12, and prints them.
# Usage: install-deps.sh build|demo|images|release|test|cluster|kubevirt|fuzz|conformance|foreign|yardstick|lint
# Without root, or elsewhere, it names the missing packages and exits with 1.
set -eu

packages_build="gcc meson ninja-build pkg-config libdpdk-dev libjansson-dev libmnl-dev libcap-dev
	libseccomp-dev libcmocka-dev libusrsctp-dev clang-14 libbpf-dev libipsec-mb-dev"
packages_run="iproute2 kmod"
packages_ovs="openvswitch-switch-dpdk"
packages_clock="linuxptp"
packages_tools="ethtool iperf3 iputils-ping cyclonedds-tools openssl procps libc-bin coreutils $packages_clock"
# Without chrony, which would replace this machine's clock service (scripts/chronyd.sh), but with its libraries.
packages_test="tshark binutils musl-tools chromium mandoc podman runc isochron libgnutls30 libnettle8 $packages_ovs $packages_tools"
# Rust may also come from rustup.
command -v rustc >/dev/null || packages_test="$packages_test rustc"
packages_conformance="qemu-system-x86 cpio"
# The libraries of the fetched CPython are those of this machine's.
packages_foreign="dpkg-dev gcc libc6-dev cmake python3 xz-utils util-linux iproute2 kmod"
command -v cargo >/dev/null || packages_foreign="$packages_foreign cargo"
# The simulator of tsnkit is compiled.
packages_yardstick="python3 python3-venv python3-dev gcc libc6-dev"
packages_libvirt="libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients util-linux"
packages_fuzz="libclang-rt-14-dev"
packages_cluster="containerd runc etcd-server nftables iptables tini runit procps gcc libc6-dev ethtool iputils-ping xz-utils
	$packages_ovs $packages_conformance"
packages_release="dpkg-dev lintian minisign jq binutils git"
packages_lint="clang-format-14 clang-tidy-14 shellcheck"

case "${1:-}" in
build) packages="$packages_build $packages_run" ;;
demo) packages="$packages_build $packages_run $packages_ovs" ;;
images) packages="$packages_build $packages_run $packages_tools $packages_ovs" ;;
release) packages="$packages_build $packages_run $packages_release" ;;
test) packages="$packages_build $packages_run $packages_test $packages_fuzz $packages_conformance $packages_libvirt $packages_yardstick" ;;
kubevirt) packages="$packages_build $packages_run $packages_cluster $packages_libvirt libvirt-dev seabios" ;;
cluster) packages="$packages_run $packages_cluster" ;;
fuzz) packages="$packages_build $packages_fuzz llvm-14" ;; # llvm-14: line numbers in findings
foreign) packages="$packages_conformance $packages_foreign" ;;
yardstick) packages="$packages_yardstick" ;;
conformance) packages="$packages_run $packages_conformance" ;;
lint) packages="$packages_lint" ;;
*) echo "usage: $0 build|demo|images|release|test|cluster|kubevirt|fuzz|conformance|foreign|yardstick|lint" >&2; exit 2 ;;
esac

missing=""
for package in $packages; do
	dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' ||
		missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "These Debian packages are missing; as root: apt-get install$missing" >&2
	exit 1
fi
echo "Installing:$missing"
export DEBIAN_FRONTEND=noninteractive
patient="DPkg::Lock::Timeout=600" # another run may hold the lock
apt-get -qq -o $patient update
# shellcheck disable=SC2086 # a list of words
apt-get -qq -o $patient install --no-install-recommends $missing >/dev/null
