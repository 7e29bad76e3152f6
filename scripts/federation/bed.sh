# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Starts and removes a hub and two clusters of one node that are its members. Sourced by federation.sh and e2e.sh after tally.sh. It uses $logs.
#
#   KTSN_FEDERATION_REALTIME=200000  each cluster's option --realtime
#   KTSN_FEDERATION_EAST_NODES=1     how many nodes the first cluster has
. scripts/clusters.sh

# The name differs between working copies, so that their runs do not conflict.
KTSN_FEDERATION=federation-$(pwd | sha256sum | head -c 6)
export KTSN_FEDERATION
federation_log=$logs/federation-up

federation_up() {
	bring_federation_up 2>&1 | tee "$federation_log"
	return "${PIPESTATUS[0]}"
}

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

# Removes all of them that exist.
federation_down() {
	local name
	for name in $(federation_places); do
		cluster_down "$name"
	done
}

# Prints the usage at rest of each of them, measured at the same time.
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
