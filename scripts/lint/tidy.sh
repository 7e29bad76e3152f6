#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over the C sources that the build folder knows (.clang-tidy says what is checked).
#
#     tidy.sh            all checks but the static analyzer, all sources: seconds (make lint)
#     tidy.sh --all      with the analyzer: minutes (make tidy)
set -eu
cd "$(dirname "$0")/../.."

checks='-clang-analyzer-*'
case "${1:-}" in
'') ;;
--all) checks= ;;
*) echo "usage: $0 [--all]" >&2; exit 2 ;;
esac
[ -f build/build.ninja ] || meson setup build >/dev/null
ninja -C build --quiet # headers that are generated, and the list of commands
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Sources that were compiled twice are checked once. Those that the folder no longer has are left out.
sed -n 's/^ *"file": "\.\.\/\(.*\)",\{0,1\}$/\1/p' build/compile_commands.json | sort -u |
	while read -r file; do [ ! -f "$file" ] || echo "$file"; done |
	xargs -P "$(nproc)" -n 8 clang-tidy-14 -p build --quiet ${checks:+--checks="$checks"} >"$log" 2>"$log.err" && { rm -f "$log.err"; exit 0; }
# A finding in a header is found by each source that includes it.
awk '/: (warning|error): / { shown = !seen[$0]++ } shown' "$log"
grep -v -e 'warnings\{0,1\} generated' -e 'warnings\{0,1\} treated as error' -e '^Suppressed' -e '^Use -header' "$log.err" >&2 || true
rm -f "$log.err"
exit 1
