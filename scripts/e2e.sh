#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts Kubernetes clusters on this machine and runs the tests in them. Prints the counts in its last line. Called by `make e2e` after
# programs and images are built.
#
#   KTSN_KEEP=1   leave the cluster up at the end (not the second, which some tests use)
#   KTSN_REALTIME=530000,370000  the option --realtime: ktsnd and two talkers that spin on the first node (bench_test.go), and what two
#                 ktsnd need during an upgrade on the second
#   E2E_RUN=REGEX run only these tests, all in one cluster
#   E2E_LONG=1    measurements of time, too, and the experiment of the paper with enough messages for figures
#   E2E_UPGRADES=20  number of upgrades of the chart under load, instead of one
#   E2E_PREVIOUS=FOLDER  upgrades, and the one that is rolled back, are from the release with its files there
set -um # -m: each job is a process group, so that an interruption ends all of its processes
cd "$(dirname "$0")/.." || exit 1
. scripts/tally.sh
. scripts/aloud.sh
. scripts/federation/bed.sh

out=out/e2e
# The folders of API servers and etcd, which a killed test leaves behind. The path is short because socket paths must be.
servers=$(mktemp -d -t ktXXXX)
# The name differs between working copies, so that their runs do not conflict.
KTSN_CLUSTER=e2e-$(pwd | sha256sum | head -c 6)
export KTSN_CLUSTER KTSN_BIN_DIR=$PWD/bin
[ -z "${E2E_PREVIOUS:-}" ] || E2E_PREVIOUS=$(realpath "$E2E_PREVIOUS") || exit 1 # tests have folders of their own

# Removes the second cluster, and those that the tests of a killed run left. Their names begin with the name of this cluster.
remove_others() {
	local other
	for other in /var/lib/ktsn-cluster/"$KTSN_CLUSTER"-*; do
		cluster_down "$(basename "$other")"
	done
}

end() {
	# shellcheck disable=SC2119 # without jobs of its own
	finish
	rm -rf "$servers"
	remove_others
	federation_down
	if [ "${KTSN_KEEP:-}" = 1 ]; then
		echo "The cluster stays: bin/ktsn-cluster --name $KTSN_CLUSTER status"
	elif ! bin/ktsn-cluster --name "$KTSN_CLUSTER" down; then
		fail "the cluster could not be removed"
	fi
}
trap end EXIT

fail() { # what, log if there is one
	failure "$1" "${2:-/dev/null}"
	failed=$((failed + 1))
}

# Copies the logs of services and pods of a cluster's nodes.
keep_logs() { # cluster, folder
	local kubeconfig node
	kubeconfig=$(bin/ktsn-cluster --name "$1" kubeconfig 2>/dev/null) || return # there is no cluster
	mkdir -p "$2"
	for node in "$(dirname "$kubeconfig")"/nodes/*; do
		cp -r "$node/rootfs/var/log" "$2/$(basename "$node")"
	done
	bin/ktsn-cluster --name "$1" status >"$2/status.txt" 2>&1
	echo "Logs of nodes and pods are in $2/"
}

# A cluster must be up within two minutes, without build time.
up_seconds=120

up_in_time() { # log
	local took
	took=$(sed -n 's/^ *\([0-9]*\)\.[0-9]* s  cluster .* is up$/\1/p' "$1.up")
	[ "${took:-$up_seconds}" -lt $up_seconds ] && return
	echo "The cluster took ${took:-an unknown number of} seconds to come up, and may take $up_seconds."
	return 1
}

rm -rf "$out"
KTSN_KUBERNETES_DIR=$(bin/ktsn-cluster build | sed -n 's/^kubernetes\t//p')
export KTSN_KUBERNETES_DIR

federation_up >/dev/null &
beside[federation-up]=$!
# For tests that install a release of their own and do with the default real-time budget: the federation's clusters have theirs at the
# same time.
second=$KTSN_CLUSTER-second
second_log=$logs/second
if [ -z "${E2E_RUN:-}" ]; then
	cluster_up "$second" "$second_log" >"$second_log.said" 2>&1 &
	beside[second-up]=$!
fi
# These need no cluster, and run at the same time as the tests of the federation and the cluster, which mostly wait. They must not
# measure time. The suite guest runs the suite inside in an emulated machine.
nice_beside=10
# shellcheck disable=SC2046 # a list of words
if CGO_ENABLED=0 scripts/go.sh test $(scripts/suite.sh inside) -c -o "$PWD/bin/ktsn-guest-tests"; then
	KTSN_GUEST_OUT=$PWD/$out/guest start_go guest -timeout 45m
else
	fail "the tests for the virtual machine cannot be built"
fi
TMPDIR=$servers start_go hub -timeout 30m
fresh=() # Go repeats results of these where nothing changed
run_go images "the image builder"
run_go cluster-parts "the cluster's own parts"
run_go kata-parts "the stand-in for Kata's runtime"
fresh=(-count=1)
start_go release -timeout 20m
TMPDIR=$servers start_go operator -timeout 30m

in_federation() { KTSN_FEDERATION_SHORT=1 run_go federation-short "in the federation" -timeout 20m; }

names_of() { sed -n 's/^func \(Test[A-Za-z0-9]*\)(.*/\1/p' "$@" | paste -sd '|'; } # files with tests

# What runs in which cluster.
in_bench='^Test/^ktsn_bench_' # a part of other tests; go test -skip needs alternatives with a slash at the end
if [ -n "${E2E_RUN:-}" ]; then
	selected=(-run "$E2E_RUN")
else
	left_out=$(scripts/suite.sh cluster-second | sed 's/.* -run=\([^ ]*\) .*/\1/')
	changed "the tests of the test cluster itself" test/cluster ||
		left_out+="|^($(names_of test/cluster/e2e/{lifecycle,flannel}_test.go))\$"
	if changed "the tests of ktsn-bench in the cluster" bench internal/testlab; then
		in_bench='^$'
	else
		left_out+="|^($(names_of test/cluster/e2e/{bench,bench_tools,chart_measure}_test.go))\$|$in_bench"
	fi
	selected=(-skip "$left_out")
fi

# Starts the tests of the second cluster, once it is up.
start_second() {
	local status
	[ -n "${beside[second-up]:-}" ] || return
	wait "${beside[second-up]}"
	status=$?
	unset "beside[second-up]"
	case $status in
	# The timeout is longer than any wait of its tests, so that they report what they waited for.
	0) KTSN_CLUSTER=$second start_go cluster-second -timeout 30m -skip "$in_bench" ;;
	3) KTSN_NO_CLUSTER=$(why_not "$second_log") start_go cluster-second ;; # the tests give the reason
	*)
		cat "$second_log.said"
		if [ "$status" -eq 4 ]; then fail "images could not be loaded into the second cluster" "$second_log"
		else fail "the second cluster did not come up" "$second_log"; fi
		keep_logs "$second" "$out/second"
		;;
	esac
}

finish_second() {
	local before=$failed
	[ -z "${beside[cluster-second]:-}" ] || finish_go cluster-second "in a second cluster, begun before these"
	[ "$failed" -eq "$before" ] || keep_logs "$second" "$out/second"
	run cluster_down "$second" || fail "the second cluster could not be removed"
}

nice_beside=''
start_second
echo "== a federation, short form, begun before these"
began=$SECONDS
wait "${beside[federation-up]}"
status=$?
unset "beside[federation-up]"
cat "$federation_log"
echo "waited for it another $((SECONDS - began)) s"
case $status in
0) in_federation ;;
3) KTSN_NO_CLUSTER=$(why_not "$federation_log") in_federation ;; # this machine cannot run it; the tests give the reason
*) fail "the federation did not come up" "$federation_log" ;;
esac
federation_down
finish_go hub "the federator, with a hub's API server, begun before these"
finish_go release "the release, begun before these"
finish_go operator "the operator, with an API server, begun before these"
finish_second
# The timeout is longer than any wait of its tests, so that they report what they waited for.
nice_beside=10
TMPDIR=$servers start_go scale -timeout 30m

echo "== the cluster"
log=$logs/log
remove_others
before=$failed
run cluster_up "$KTSN_CLUSTER" "$log" --realtime "${KTSN_REALTIME:-530000,370000}"
case $? in
0) up_in_time "$log" || fail "the cluster came up late" ;;
3) # this machine cannot run it; the tests give the reason
	KTSN_NO_CLUSTER=$(why_not "$log")
	export KTSN_NO_CLUSTER
	;;
4) fail "images could not be loaded into the cluster" "$log" ;;
*) fail "the cluster did not come up" "$log" ;;
esac
# The parallel tests wait for nodes or for their turn. TestUpgradeUnderLoad has four minutes for each upgrade.
run_go cluster "in the cluster" -timeout $((45 + 4 * ${E2E_UPGRADES:-0}))m -parallel 8 "${selected[@]}"
finish_go scale "many nodes, with an API server, short form, begun before these"
[ -z "${beside[guest]:-}" ] || finish_go guest "a node with cgroups of version 2, in a virtual machine, begun before these"
[ $failed -eq "$before" ] || keep_logs "$KTSN_CLUSTER" "$out"
[ $failed -eq "$before" ] || echo "The cluster can be kept for a look with KTSN_KEEP=1."
report_timings # before the logs go
end
verdict
