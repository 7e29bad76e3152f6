# SPDX-License-Identifier: Apache-2.0
# Runs in a virtual machine: names an interface, and has what is sent from its address leave by it.
# Usage: interface.sh NAME MAC MTU TABLE ADDRESS NETWORK ETF_DELTA_NS [FAR_ADDRESS FAR_MAC]...
set -eu
name=$1 mac=$2 mtu=$3 table=$4 address=$5 network=$6 delta=$7
shift 7
for module in virtio_net sch_ingress cls_bpf sch_mqprio sch_etf; do
	modprobe $module
done
for folder in /sys/class/net/*; do
	[ "$(cat "$folder/address")" = "$mac" ] && interface=${folder##*/}
done
ip link set "$interface" name "$name" mtu "$mtu"
# Each interface answers for its own address only.
for setting in arp_ignore=1 arp_announce=2 rp_filter=0; do
	echo "${setting#*=}" >"/proc/sys/net/ipv4/conf/$name/${setting%=*}"
	echo "${setting#*=}" >"/proc/sys/net/ipv4/conf/all/${setting%=*}"
done
echo 1 >"/proc/sys/net/ipv6/conf/$name/disable_ipv6"
ip link set "$name" up
ip address add "$address/32" dev "$name"
ip rule add from "$address" lookup "$table"
ip route add "$network" dev "$name" src "$address" table "$table"
while [ $# -gt 0 ]; do
	ip neighbour replace "$1" lladdr "$2" dev "$name" nud permanent
	shift 2
done
if [ "$name" = released ]; then
	tc qdisc replace dev "$name" root handle 100: mqprio num_tc 2 map 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 hw 0
	tc qdisc replace dev "$name" parent 100:2 etf clockid CLOCK_TAI delta "$delta"
fi
