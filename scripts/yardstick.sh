#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares `ktsn schedule plan` with tsnkit (test/yardstick), whose packages of test/yardstick/requirements.txt it installs into
# build-yardstick/. Called by `make yardstick`, after the build, and with --install, which ends after that, by `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cmp -s test/yardstick/requirements.txt build-yardstick/installed; then
	rm -rf build-yardstick
	python3 -m venv build-yardstick
	build-yardstick/bin/python3 -m pip install --quiet --disable-pip-version-check setuptools==65.5.0 wheel==0.48.0 Cython==3.3.1 numpy==2.4.6
	build-yardstick/bin/python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -r test/yardstick/requirements.txt
	cp test/yardstick/requirements.txt build-yardstick/installed
fi
[ "${1:-}" = --install ] || exec scripts/tabletest.sh yardstick 12h
