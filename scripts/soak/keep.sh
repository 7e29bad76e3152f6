#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `go test -exec` calls this in a package's folder, in place of the package's tests: keeps their program, to be run without `go`.
# Usage: go test -exec "keep.sh ROOT KEPT" ./...
set -eu
root=$1 kept=$2 program=$3
folder=$kept/${PWD#"$root"/}
mkdir -p "$folder"
cp "$program" "$folder/kept.test"
