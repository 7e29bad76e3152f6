#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A real Kubernetes cluster on this machine, and the tests in it. Closes with one line that counts them all.
# Called by `make e2e`, after the programs and images are built.
#
#   KTSN_KEEP=1   leave the cluster up at the end
#   KTSN_REALTIME=550000,200000  its option --realtime: on the first node ktsnd, and two talkers that spin (bench_test.go)
#   E2E_RUN=REGEX run only these tests in the cluster
set -um # -m: what runs for long is a process group, which an interruption ends as a whole
cd "$(dirname "$0")/.." || exit 1

passed=0 failed=0 skipped=0
out=out/e2e
log=$(mktemp)
job=
# Runs in different working copies do not meet.
KTSN_CLUSTER=e2e-$(pwd | sha256sum | head -c 6)
export KTSN_CLUSTER KTSN_BIN_DIR=$PWD/bin

# A trap waits for a command in the foreground, but not for `wait`.
run() {
	"$@" &
	job=$!
	wait $job
	local status=$?
	job=
	return $status
}

# The tests make clusters of their own, whose names begin with this one's; a killed run leaves them.
remove_others() {
	local other
	for other in /var/lib/ktsn-cluster/"$KTSN_CLUSTER"-*; do
		[ ! -d "$other" ] || bin/ktsn-cluster --name "$(basename "$other")" down
	done
}

finish() {
	trap - EXIT
	trap '' INT TERM
	if [ -n "$job" ]; then
		kill -- "-$job" 2>/dev/null
		wait "$job" 2>/dev/null
	fi
	remove_others
	if [ "${KTSN_KEEP:-}" = 1 ]; then
		echo "The cluster stays: bin/ktsn-cluster --name $KTSN_CLUSTER status"
	elif ! bin/ktsn-cluster --name "$KTSN_CLUSTER" down; then
		failed=$((failed + 1))
	fi
	rm -f "$log" "$log.up"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Go: one line a test and its result, subtests included, and what failed tests say.
run_go() { # suite, name, flags...
	local suite name=$2 status began=$SECONDS
	suite=$(scripts/suite.sh "$1") || { failed=$((failed + 1)); return; }
	shift 2
	echo "== $name"
	# shellcheck disable=SC2086 # a list of words
	run go_test $suite "$@"
	status=$?
	results() { grep -cE "^ *--- $1: " "$log"; }
	local p f s
	p=$(results PASS) f=$(results FAIL) s=$(results SKIP)
	[ $status -eq 0 ] || [ "$f" -gt 0 ] || f=1
	echo "$p passed, $f failed, $s skipped, in $((SECONDS - began)) s"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# Without C, as the programs: dependencies are compiled once for all.
go_test() { # packages and flags...
	CGO_ENABLED=0 scripts/go.sh test "$@" -count=1 -v 2>&1 | tee "$log" |
		grep --line-buffered -vE '^ *=== |^(PASS|FAIL|exit status)$|^(ok|\?|FAIL)\s'
	return "${PIPESTATUS[0]}"
}

# What the nodes' services and pods wrote.
keep_logs() {
	local kubeconfig node
	kubeconfig=$(bin/ktsn-cluster --name "$KTSN_CLUSTER" kubeconfig 2>/dev/null) || return # there is none
	mkdir -p "$out"
	for node in "$(dirname "$kubeconfig")"/nodes/*; do
		cp -r "$node/rootfs/var/log" "$out/$(basename "$node")"
	done
	bin/ktsn-cluster --name "$KTSN_CLUSTER" status >"$out/status.txt" 2>&1
	echo "Logs of nodes and pods are in $out/"
}

# A cluster is up in two minutes, not counting what is built, or something is wrong with it.
up_seconds=120

up_in_time() {
	local took
	took=$(sed -n 's/^ *\([0-9]*\)\.[0-9]* s  cluster .* is up$/\1/p' "$log.up")
	[ "${took:-$up_seconds}" -lt $up_seconds ] && return
	echo "The cluster took ${took:-an unknown number of} seconds to come up, and may take $up_seconds."
	return 1
}

bring_up() {
	local status
	bin/ktsn-cluster --name "$KTSN_CLUSTER" up --realtime "${KTSN_REALTIME:-550000,200000}" 2>"$log" | tee "$log.up"
	status=${PIPESTATUS[0]}
	cat "$log" >&2
	return "$status"
}

rm -rf "$out"
run_go images "the image builder"
run_go cluster-parts "the cluster's own parts"

KTSN_KUBERNETES_DIR=$(bin/ktsn-cluster build | sed -n 's/^kubernetes\t//p')
export KTSN_KUBERNETES_DIR
run_go operator "the operator, with an API server" -timeout 15m

echo "== the cluster"
remove_others
bin/ktsn-cluster --name "$KTSN_CLUSTER" down
before=$failed
run bring_up
case $? in
0)
	up_in_time || failed=$((failed + 1))
	for image in out/images/*.tar; do
		run bin/ktsn-cluster --name "$KTSN_CLUSTER" load "$image" || failed=$((failed + 1))
	done
	;;
3) # this machine cannot; the tests give the reason
	KTSN_NO_CLUSTER=$(sed -n 's/^ktsn-cluster: //p' "$log")
	export KTSN_NO_CLUSTER
	;;
*) failed=$((failed + 1)) ;;
esac
# Of these, what is parallel waits, for nodes or for its turn.
run_go cluster "in the cluster" -timeout 45m -parallel 8 ${E2E_RUN:+-run "$E2E_RUN"}
[ $failed -eq 0 ] || keep_logs
[ $failed -eq "$before" ] || echo "The cluster can be kept for a look with KTSN_KEEP=1."
finish

if [ "${CI:-}" = true ] && [ $skipped -gt 0 ]; then
	echo "tests were skipped, and in CI none may be"
	failed=$((failed + skipped))
fi
echo
echo "in $((SECONDS / 60)) min $((SECONDS % 60)) s"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
