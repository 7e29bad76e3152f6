#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prepares the boot files of the tests' virtual machines, once, and prints their folder:
#   vmlinuz     Debian's kernel
#   base.cpio   for `make conformance`: modules, a list of them, and a tc with all of taprio's options
#   clock.cpio  for `make clocks`: modules of networks, a list of them, ip, tc and ptp4l
#   node.cpio   for the node with cgroups of version 2 (`make e2e`) and others (internal/testlab/guestmachine): the modules that show it this
#               machine's files, and a list of them
#   kernel      all other modules: of networks, file systems, VFIO and virtio ports; and the kernel's configuration
#   version     the packages' versions
# Nothing is installed: the packages are fetched and unpacked. Remove the folder to get newer ones.
set -eu
# shellcheck source=scripts/separate-apt.sh
. "$(dirname "$0")/separate-apt.sh"

suite=bookworm
conformance_modules="sch_taprio sch_etf sch_tbf sch_prio dummy bridge 8021q"
node_modules="virtio_pci 9pnet_virtio 9p overlay"
clock_modules="e1000 bridge sch_netem"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/kubernetsn/guest-kernel
# The configuration was added last: a folder without it is outdated.
whole() { [ -f "$cache/version" ] && [ -n "$(find "$cache/kernel/boot" -name "config-*" 2>/dev/null)" ]; }
if whole; then
	echo "$cache"
	exit 0
fi

for program in apt-get apt-cache dpkg-deb depmod modprobe cpio ldd; do
	PATH=$PATH:/usr/sbin:/sbin command -v $program >/dev/null && continue
	echo "$program is missing: on Debian 12, run scripts/install-deps.sh conformance" >&2
	exit 1
done
PATH=$PATH:/usr/sbin:/sbin
if [ "$(dpkg --print-architecture)" != amd64 ]; then
	echo "the kernel is Debian's for amd64, and this machine is not amd64" >&2
	exit 1
fi

mkdir -p "$(dirname "$cache")"
work=$(mktemp -d "$cache.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work"

mkdir root node clock out
prepare_apt "deb $suite main" "deb $suite-backports main"
kernel=$(apt apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')
echo "Fetching $kernel, iproute2 and linuxptp for virtual machines" >&2
apt apt-get download "$kernel" iproute2/$suite-backports linuxptp >&2

# The kernel's folders of modules, and the indices that depmod needs.
release=${kernel#linux-image-}
mkdir kernel tools
modules="net drivers/virtio drivers/vfio drivers/dca drivers/i2c/algos drivers/ptp drivers/pps virt fs lib crypto"
set -- "./boot/vmlinuz-*" "./boot/config-*" "./lib/modules/$release/modules.*" "./lib/modules/$release/kernel/drivers/net/*.ko" \
	"./lib/modules/$release/kernel/drivers/char/virtio_console.ko"
for folder in $modules; do
	set -- "$@" "./lib/modules/$release/kernel/$folder/*"
done
dpkg-deb --fsys-tarfile "$kernel"_*.deb | tar -x -C kernel --wildcards "$@"
dpkg-deb --fsys-tarfile iproute2_*.deb | tar -x -C tools
dpkg-deb --fsys-tarfile linuxptp_*.deb | tar -x -C tools
depmod -b kernel "$release"

# Modules and a list of them, each after its dependencies.
copy_modules() { # folder, modules...
	root=$1
	shift
	mkdir -p "$root/lib/modules"
	for module in "$@"; do
		modprobe -d "$work/kernel" -S "$release" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
	done | awk '!seen[$0]++' >files
	while read -r file; do
		cp "$file" "$root/lib/modules/"
		echo "/lib/modules/${file##*/}"
	done <files >"$root/modules"
}

# shellcheck disable=SC2086 # lists of words
copy_modules root $conformance_modules
# shellcheck disable=SC2086
copy_modules node $node_modules

# shellcheck disable=SC2086
copy_modules clock $clock_modules

# Programs, each with this machine's libraries.
copy_programs() { # folder, programs...
	root=$1
	shift
	for program in "$@"; do
		mkdir -p "$root/$(dirname "$program")"
		cp "tools/$program" "$root/$program"
		if ldd "$root/$program" | grep 'not found' >&2; then
			echo "install iproute2 and libc6, whose libraries these are" >&2
			exit 1
		fi
		ldd "$root/$program" | grep -o '/lib[^ ]*' | while read -r library; do
			mkdir -p "$root$(dirname "$library")"
			cp -L "$library" "$root$library"
		done
	done
}
copy_programs root sbin/tc
copy_programs clock bin/ip sbin/tc usr/sbin/ptp4l

(cd root && find . | cpio -o -H newc --quiet) >out/base.cpio
(cd clock && find . | cpio -o -H newc --quiet) >out/clock.cpio
(cd node && find . | cpio -o -H newc --quiet) >out/node.cpio
mv "kernel/boot/vmlinuz-$release" out/vmlinuz
mv kernel out/kernel
for package in ./*.deb; do
	# shellcheck disable=SC2016 # a format of dpkg-deb's own
	dpkg-deb -W --showformat '${Package} ${Version}\n' "$package"
done >out/version
# Another run may have been faster.
whole || { rm -rf "$cache" && mv out "$cache"; }
echo "$cache"
