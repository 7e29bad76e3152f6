#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Records the bytes that the programs of this version exchange (datapath/tests/recorded/README.md), for the tests of later releases, which must
# understand them. Called by `make record`, after the build.
set -eu
cd "$(dirname "$0")/.."
KTSN_RECORD=$PWD/datapath/tests/recorded/$(cat internal/shared/version/VERSION)
export KTSN_RECORD KTSN_BIN_DIR="$PWD/bin"
# shellcheck disable=SC2046 # a list of words
scripts/go.sh test $(scripts/suite.sh record) -count=1 -v
