#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the names of the programs in bin/ that a release has: in images, Debian packages, or as they are. With "go" only those of Go.
set -eu
cd "$(dirname "$0")/.."
{
	# shellcheck disable=SC2016 # the names of variables
	sed -n 's/.*source: \$BIN\/\([a-z/-]*\/\)\{0,1\}\([a-z.-]*\)}.*/\2/p' images/*.yaml
	# shellcheck disable=SC2016
	sed -n 's/.*src: \$STAGE\/bin\/\([a-z.-]*\),.*/\1/p' packaging/deb/*.yaml
	echo ktsn-push
} | sort -u | while read -r name; do
	[ "${1:-}" != go ] || [ -d "cmd/$name" ] || [ "$(echo */"cmd/$name")" != "*/cmd/$name" ] || continue
	echo "$name"
done
