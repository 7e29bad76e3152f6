#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures how long a link's client is not answered after a failure of endpoint, agent, ktsnd, operator, node, hub or WAN: in a cluster of
# two nodes, and then across the clusters of federation.sh. Tables are in out/bench-healing. Called by `make bench-healing`, after the
# images are built.
#
#   HEALING_RUN=REGEX  run only these tests
#   KTSN_REALTIME=0    each cluster's option --realtime
set -um # -m: each job is a process group, so that an interruption ends all of its processes
cd "$(dirname "$0")/.." || exit 1
. scripts/tally.sh
. scripts/aloud.sh
. scripts/federation/bed.sh

export KTSN_BIN_DIR=$PWD/bin KTSN_HEALING_OUT=$PWD/out/bench-healing
# The name differs between working copies, so that their runs do not conflict.
KTSN_CLUSTER=healing-$(pwd | sha256sum | head -c 6)
export KTSN_CLUSTER
# The same in both, so that timed messages can be compared.
export KTSN_REALTIME=${KTSN_REALTIME:-0}
export KTSN_FEDERATION_REALTIME=${KTSN_FEDERATION_REALTIME:-$KTSN_REALTIME}

end() {
	# shellcheck disable=SC2119 # without jobs of its own
	finish
	cluster_down "$KTSN_CLUSTER"
	federation_down
}
trap end EXIT

did_not_come_up() { # which, log
	failure "$1 did not come up" "$2"
	failed=$((failed + 1))
}

rm -rf "$KTSN_HEALING_OUT" && mkdir -p "$KTSN_HEALING_OUT"
# One after the other: together they are too many nodes for this kernel's limits.
if run cluster_up "$KTSN_CLUSTER" "$logs/cluster-up" --realtime "$KTSN_REALTIME"; then
	run_go healing "in a cluster of two nodes" -timeout 60m ${HEALING_RUN:+-run "$HEALING_RUN"}
else
	did_not_come_up "the cluster" "$logs/cluster-up"
fi
cluster_down "$KTSN_CLUSTER"
if run federation_up; then
	run_go federation-healing "in a federation" -timeout 60m ${HEALING_RUN:+-run "$HEALING_RUN"}
else
	did_not_come_up "the federation" "$federation_log"
fi
report_timings # before the logs go
end
verdict
