#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures the cost of a federation and the failures that it tolerates: the clusters of federation.sh with a second node in the first one,
# and the figures of test/cluster/federation, in out/bench-federation. Missed limits fail nothing: the machine may be busy. Called by
# `make bench-federation`, after the images are built.
#
#   KTSN_FEDERATION_TRIAL=1  a few turns of each, to test the bench itself
set -um # -m: each job is a process group, so that an interruption ends all of its processes
cd "$(dirname "$0")/.." || exit 1
. scripts/tally.sh
. scripts/aloud.sh
. scripts/federation/bed.sh

export KTSN_BIN_DIR=$PWD/bin KTSN_FEDERATION_OUT=$PWD/out/bench-federation KTSN_FEDERATION_EAST_NODES=2

end() {
	# shellcheck disable=SC2119 # without jobs of its own
	finish
	federation_down
}
trap end EXIT

rm -rf "$KTSN_FEDERATION_OUT" && mkdir -p "$KTSN_FEDERATION_OUT"
echo "== a hub and two members"
run federation_up
case $? in
0) ;;
3) # this machine cannot run it; the test gives the reason
	KTSN_NO_CLUSTER=$(why_not "$federation_log")
	export KTSN_NO_CLUSTER
	;;
*)
	failure "the federation did not come up" "$federation_log"
	failed=$((failed + 1))
	;;
esac
run_go federation-figures "figures" -timeout 60m
report_timings # before the logs go
end
verdict
