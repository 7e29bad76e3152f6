#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy on the C sources that the build folder knows (.clang-tidy lists the checks).
#
#     tidy.sh            all checks but the static analyzer, all sources: seconds (make lint)
#     tidy.sh --all      with the analyzer: minutes (make tidy)
#
# The analyzer is not for tests: it does not know that assertions of cmocka do not return.
set -eu
cd "$(dirname "$0")/../.."

all=
case "${1:-}" in
'') ;;
--all) all=1 ;;
*) echo "usage: $0 [--all]" >&2; exit 2 ;;
esac
[ -f build/build.ninja ] || meson setup build >/dev/null
ninja -C build --quiet # generated headers, and the list of commands
log=$(mktemp)
trap 'rm -f "$log" "$log.err"' EXIT
# Sources that were compiled twice are checked once. Sources that no longer exist are skipped.
sources() {
	sed -n 's/^ *"file": "\.\.\/\(.*\)",\{0,1\}$/\1/p' build/compile_commands.json | sort -u |
		while read -r file; do [ ! -f "$file" ] || echo "$file"; done
}

tidy() { # options...
	xargs -P "$(nproc)" -n 8 clang-tidy-14 -p build --quiet "$@" >>"$log" 2>>"$log.err"
}

status=0
if [ -n "$all" ]; then
	sources | grep -v /tests/ | tidy || status=1
	sources | grep /tests/ | tidy --checks='-clang-analyzer-*' || status=1
else
	sources | tidy --checks='-clang-analyzer-*' || status=1
fi
# A finding in a header is found by each source that includes it.
awk '/: (warning|error): / { shown = !seen[$0]++ } shown' "$log"
[ $status -eq 0 ] || grep -v -e 'warnings\{0,1\} generated' -e 'warnings\{0,1\} treated as error' -e '^Suppressed' -e '^Use -header' "$log.err" >&2 || true
exit $status
