#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A real Kubernetes cluster on this machine, and the tests in it. Closes with one line that counts them all.
# Called by `make e2e`, after the programs and images are built.
#
#   KTSN_KEEP=1   leave the cluster up at the end
#   E2E_RUN=REGEX run only these tests in the cluster
set -u
cd "$(dirname "$0")/.." || exit 1

passed=0 failed=0 skipped=0
out=out/e2e
logs=$(mktemp -d)
# Runs in different working copies do not meet.
KTSN_CLUSTER=e2e-$(pwd | sha256sum | head -c 6)
export KTSN_CLUSTER KTSN_BIN_DIR=$PWD/bin

# The tests make clusters of their own, whose names begin with this one's; a killed run leaves them.
remove_others() {
	local other
	for other in /var/lib/ktsn-cluster/"$KTSN_CLUSTER"-*; do
		[ ! -d "$other" ] || bin/ktsn-cluster --name "$(basename "$other")" down
	done
}

finish() {
	trap - EXIT INT TERM
	remove_others
	if [ "${KTSN_KEEP:-}" = 1 ]; then
		echo "The cluster stays: bin/ktsn-cluster --name $KTSN_CLUSTER status"
	elif ! bin/ktsn-cluster --name "$KTSN_CLUSTER" down; then
		failed=$((failed + 1))
	fi
	rm -rf "$logs"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Go: one event a line, tests and their results, subtests included.
run_go() { # name, folder of the module, packages and flags...
	local name=$1 module=$2 status
	shift 2
	echo "== $name"
	scripts/go.sh test -C "$module" -count=1 -json "$@" >"$logs/go" 2>"$logs/go.err"
	status=$?
	events() { grep -c "\"Action\":\"$1\".*\"Test\":" "$logs/go"; }
	local p f s
	p=$(events pass) f=$(events fail) s=$(events skip)
	if [ $status -ne 0 ]; then
		cat "$logs/go.err"
		sed -n 's/.*"Action":"\(output\|build-output\)".*"Output":"\(.*\)"}$/\2/p' "$logs/go" |
			sed 's/\\n$//; s/\\t/\t/g; s/\\"/"/g; s/\\u003c/</g; s/\\u003e/>/g; s/\\u0026/\&/g'
		[ "$f" -gt 0 ] || f=1
	fi
	echo "$p passed, $f failed, $s skipped"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# What the nodes' services and pods wrote.
keep_logs() {
	local dir
	dir=$(dirname "$(bin/ktsn-cluster --name "$KTSN_CLUSTER" kubeconfig)") || return
	mkdir -p "$out"
	for node in "$dir"/nodes/*; do
		cp -r "$node/rootfs/var/log" "$out/$(basename "$node")"
	done
	bin/ktsn-cluster --name "$KTSN_CLUSTER" status >"$out/status.txt" 2>&1
	echo "Logs of nodes and pods are in $out/"
}

rm -rf "$out"
run_go "the image builder" images ./...
run_go "the cluster's own parts" test/cluster ./internal/...

echo "== the cluster"
remove_others
bin/ktsn-cluster --name "$KTSN_CLUSTER" down
bin/ktsn-cluster --name "$KTSN_CLUSTER" up
case $? in
0)
	for image in out/images/*.tar; do
		bin/ktsn-cluster --name "$KTSN_CLUSTER" load "$image" || failed=$((failed + 1))
	done
	;;
3) echo "The tests in the cluster are skipped." ;; # this machine cannot; ktsn-cluster said why
*) failed=$((failed + 1)) ;;
esac
before=$failed
run_go "in the cluster" test/cluster -timeout 30m ${E2E_RUN:+-run "$E2E_RUN"} ./e2e
[ $failed -eq 0 ] || keep_logs
[ $failed -eq "$before" ] || echo "The cluster can be kept for a look with KTSN_KEEP=1."
finish

if [ "${CI:-}" = true ] && [ $skipped -gt 0 ]; then
	echo "tests were skipped, and in CI none may be"
	failed=$((failed + skipped))
fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
