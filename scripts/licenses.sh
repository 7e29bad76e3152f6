#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the licences of the Go modules in programs of Go, and of Go itself, which those who distribute the programs must pass on. The modules are
# in Go's cache after the build.
# Usage: licenses.sh PROGRAM...
set -eu
export LC_ALL=C
go=$(dirname "$0")/go.sh
cache=$("$go" env GOMODCACHE)

text_of() { # module, version, folder
	echo "==== $1 $2"
	found=''
	for file in "$3"/*; do
		case ${file##*/} in
		[Ll][Ii][Cc][Ee][Nn][SsCc][Ee]* | [Cc][Oo][Pp][Yy][Ii][Nn][Gg]* | [Nn][Oo][Tt][Ii][Cc][Ee]*) ;;
		*) continue ;;
		esac
		[ -f "$file" ] || continue
		found=1
		echo
		cat "$file"
	done
	[ -n "$found" ] || { echo "licenses.sh: $1 $2 has no licence in $3" >&2; return 1; }
	echo
}

build=$("$go" version -m "$@") || { echo "licenses.sh: Go cannot read the modules of these programs: $*" >&2; exit 1; }
text_of "Go" "$("$go" env GOVERSION)" "$("$go" env GOROOT)"
# The module "=>" replaces the one of the line before.
echo "$build" | awk '$1 == "dep" { if (last) print last; last = $2 " " $3 } $1 == "=>" { last = $2 ~ /^\./ ? "" : $2 " " $3 } END { if (last) print last }' |
	sort -u | while read -r module version; do
	text_of "$module" "$version" "$cache/$(echo "$module@$version" | sed 's/[A-Z]/!&/g' | tr '[:upper:]' '[:lower:]')"
done
