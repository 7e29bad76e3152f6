# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Starts and removes test clusters. Sourced by the scripts that need them, after tally.sh.

# Starts a cluster and loads the images; the log has the errors. Returns 3 if this machine cannot run one (why_not has the reason), and
# 4 if an image could not be loaded. With E2E_PREVIOUS, the folder of a release's files, its images are loaded, too.
cluster_up() { # name, log, flags...
	local image status
	cluster_down "$1"
	bin/ktsn-cluster --name "$1" up "${@:3}" 2>"$2" | tee "$2.up"
	status=${PIPESTATUS[0]}
	cat "$2" >&2
	[ "$status" -eq 0 ] || return "$status"
	for image in out/images/*.tar ${E2E_PREVIOUS:+"$E2E_PREVIOUS"/kubernetsn-*-images.tar}; do
		bin/ktsn-cluster --name "$1" load "$image" 2> >(tee -a "$2" >&2) || { echo "$image cannot be loaded" | tee -a "$2"; status=4; }
	done
	return "$status"
}

# Removes a cluster if it exists.
cluster_down() { [ ! -d "/var/lib/ktsn-cluster/$1" ] || bin/ktsn-cluster --name "$1" down; } # name

# Prints why this machine cannot run a cluster, after status 3.
why_not() { sed -n 's/^ktsn-cluster: //p' "$1"; } # log
