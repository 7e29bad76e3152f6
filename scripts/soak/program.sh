#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program that keep.sh kept, in its package's folder, and keeps its output and exit status.
# Usage: program.sh ROOT KEPT LOGS PACKAGE FLAGS...
set -eu
root=$1 program=$2/$4/kept.test log=$3/$(echo "$4" | tr / -)
cd "$root/$4"
shift 4
status=0
"$program" -test.paniconexit0 -test.v "$@" >"$log.log" 2>&1 || status=$?
echo $status >"$log.status"
