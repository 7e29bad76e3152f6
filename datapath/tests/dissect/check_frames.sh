#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An independent check of the frame stage: tshark reads the frames that write_frames built, validates all
# checksums, and must find the values that write_frames printed.
#
#     check_frames.sh path/to/write_frames
set -eu

write_frames=$1

if ! command -v tshark >/dev/null; then
	echo "skipped: tshark is not installed (Debian: apt install tshark)"
	exit 77
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$write_frames" "$scratch/frames.pcap" >"$scratch/expected"

# The first line names the fields.
fields=$(head -n 1 "$scratch/expected" | tr '|' '\n' | sed 's/^/-e /')

# A separate profile, so that user preferences do not change the result. No name look-ups; payloads are not
# dissected (write_frames sends them to these ports).
export XDG_CONFIG_HOME="$scratch" HOME="$scratch"
# shellcheck disable=SC2086 # the fields are words
if ! tshark -n -r "$scratch/frames.pcap" \
	-o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -o udp.try_heuristic_first:FALSE \
	-d udp.port==40001,data -d udp.port==65535,data \
	-T fields -E header=y -E separator='|' -E aggregator=, -E occurrence=a \
	$fields >"$scratch/found" 2>"$scratch/tshark.log"; then
	cat "$scratch/tshark.log"
	echo "tshark failed"
	exit 1
fi

if ! diff -u "$scratch/expected" "$scratch/found"; then
	echo "tshark (+) does not find in the frames what was put in (-)"
	exit 1
fi
echo "$(($(wc -l <"$scratch/found") - 1)) frames dissected, all as expected"
