#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs in a virtual machine: gives its interface addresses, has frames carry their times, and starts a program that asks for some.
# Usage: guest.sh KTSN_GUEST ADDRESS/BITS MTU PROGRAM...
set -eu
ktsn_guest=$1 address=$2 mtu=$3
shift 3
for module in virtio_net virtio_console sch_ingress cls_bpf; do
	modprobe $module
done
for folder in /sys/class/net/*; do
	[ "${folder##*/}" = lo ] || interface=${folder##*/}
done
ip link set "$interface" mtu "$mtu" up
ip address add "$address" dev "$interface"
"$ktsn_guest" run --interface "$interface" 2>/out/run &
for _ in $(seq 300); do
	"$ktsn_guest" status --interface "$interface" -o json 2>/dev/null | grep -q '"known":true' && break
	sleep 0.1
done
"$ktsn_guest" status --interface "$interface" -o json >/out/before
"$@"
"$ktsn_guest" status --interface "$interface" -o json >/out/after
"$ktsn_guest" status --interface "$interface"
