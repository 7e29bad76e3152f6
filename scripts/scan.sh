#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Scans the programs of Go that a release has for known vulnerabilities, with govulncheck. Called by `make scan`, after the build.
#
#   VULNDB=FOLDER  the database, in the form of https://vuln.go.dev (index/, ID/). Without one nothing is scanned, and the last line says so
#
# Debian packages of images are not scanned: Debian's security tracker lists their vulnerabilities, by the versions in images/debian.lock.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${KTSN_BIN_DIR:-bin}

mapfile -t programs < <(scripts/shipped.sh go)
[ ${#programs[@]} -gt 0 ] || { echo "scan.sh: scripts/shipped.sh names no program of Go" >&2; exit 1; }
for name in "${programs[@]}"; do
	scripts/go.sh version "$bin/$name" >/dev/null || { echo "scan.sh: $bin/$name cannot be read; run \`make images\`" >&2; exit 1; }
done

if [ -z "${VULNDB:-}" ]; then
	echo "Not scanned: there is no database of vulnerabilities. Name its folder with VULNDB."
	echo "0 passed, 0 failed, ${#programs[@]} skipped (not scanned)"
	exit 0
fi
database=$(realpath "$VULNDB")
[ -f "$database/index/db.json" ] || { echo "scan.sh: $VULNDB is no database of vulnerabilities: it has no index/db.json" >&2; exit 1; }
jq -e 'length > 0' "$database/index/modules.json" >/dev/null || {
	echo "scan.sh: the database $VULNDB is empty: its index/modules.json names no module" >&2
	exit 1
}
modified=$(jq -r .modified "$database/index/db.json")
echo "The database was modified at $modified, $((($(date +%s) - $(date -d "$modified" +%s)) / 86400)) days ago."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0
for name in "${programs[@]}"; do
	if bin/govulncheck -mode binary -db "file://$database" "$bin/$name" >"$log" 2>&1; then
		passed=$((passed + 1))
	else
		echo "== $name"
		cat "$log"
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
