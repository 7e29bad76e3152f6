#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts a federation of a hub, which is Karmada, and two members, measures their usage at rest, and runs the tests
# (test/cluster/federation). Prints the counts in its last line. Called by `make federation` after the images are built.
#
#   KTSN_KEEP=1           leave the federation up at the end
#   FEDERATION_RUN=REGEX  run only these tests
set -um # -m: each job is a process group, so that an interruption ends all of its processes
cd "$(dirname "$0")/.." || exit 1
. scripts/tally.sh
. scripts/aloud.sh
. scripts/federation/bed.sh

out=out/federation
export KTSN_BIN_DIR=$PWD/bin

end() {
	# shellcheck disable=SC2119 # without jobs of its own
	finish
	if [ "${KTSN_KEEP:-}" = 1 ]; then
		echo "The federation stays: bin/ktsn-cluster --name $KTSN_FEDERATION status"
	else
		federation_down
	fi
}
trap end EXIT

rm -rf "$out" && mkdir -p "$out"
echo "== a hub and two members"
run federation_up
case $? in
0)
	echo "== at rest"
	run sleep 30 # until caches are filled
	federation_usage 30s | tee "$out/usage.txt"
	;;
3) # this machine cannot run it; the tests give the reason
	KTSN_NO_CLUSTER=$(why_not "$federation_log")
	export KTSN_NO_CLUSTER
	;;
*)
	failure "the federation did not come up" "$federation_log"
	failed=$((failed + 1))
	;;
esac
run_go federation "in the federation" -timeout 45m ${FEDERATION_RUN:+-run "$FEDERATION_RUN"}
report_timings # before the logs go
end
verdict
