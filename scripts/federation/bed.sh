# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A hub, and two clusters of one node that are its members. Sourced by federation.sh and e2e.sh after tally.sh, whose $logs it uses.
#
#   KTSN_FEDERATION_REALTIME=200000  each cluster's option --realtime
#   KTSN_FEDERATION_EAST_NODES=1     how many nodes the first cluster has

# Runs in different working copies do not meet.
KTSN_FEDERATION=federation-$(pwd | sha256sum | head -c 6)
export KTSN_FEDERATION
federation_log=$logs/federation-up

federation_up() {
	bring_federation_up 2>&1 | tee "$federation_log"
	return "${PIPESTATUS[0]}"
}

# Why this machine cannot, where federation_up has returned 3.
federation_why_not() { sed -n 's/^ktsn-cluster: //p' "$federation_log"; }

# The members are called east and west.
bring_federation_up() {
	local member name nodes=${KTSN_FEDERATION_EAST_NODES:-1}
	federation_down
	bin/ktsn-cluster --name "$KTSN_FEDERATION" hub up || return
	for member in east west; do
		name=$KTSN_FEDERATION-$member
		bin/ktsn-cluster --name "$name" up --nodes "$nodes" --realtime "${KTSN_FEDERATION_REALTIME:-200000}" || return
		nodes=1
		bin/ktsn-cluster --name "$name" join --hub "$KTSN_FEDERATION" --as "$member" || return
		echo "$member has joined"
	done
}

federation_places() { echo "$KTSN_FEDERATION" "$KTSN_FEDERATION-east" "$KTSN_FEDERATION-west"; }

# Whatever there is of them.
federation_down() {
	local name
	for name in $(federation_places); do
		[ ! -d "/var/lib/ktsn-cluster/$name" ] || bin/ktsn-cluster --name "$name" down
	done
}

# What each uses at rest, all looked at in the same seconds.
federation_usage() { # how long
	local name all=()
	for name in $(federation_places); do
		bin/ktsn-cluster --name "$name" usage --during "$1" >"$logs/usage-$name" &
		all+=($!)
	done
	wait "${all[@]}"
	for name in $(federation_places); do
		cat "$logs/usage-$name"
	done
}
