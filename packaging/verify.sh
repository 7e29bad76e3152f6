#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Verifies a downloaded release of KuberneTSN: that its maintainers signed it, that it is the expected version, and that all of its files
# are there, unchanged, and no others. Needs minisign and sha256sum. Get this script and the public key from another place than the release.
#
# Usage: verify.sh PUBLIC-KEY-FILE VERSION [FOLDER]
set -eu
export LC_ALL=C
[ $# -ge 2 ] || { echo "usage: verify.sh PUBLIC-KEY-FILE VERSION [FOLDER]" >&2; exit 2; }
key=$1 version=$2 folder=${3:-.}

fail() {
	echo "verify.sh: $1" >&2
	exit 1
}

command -v minisign >/dev/null || fail "minisign is missing; install it"
[ -r "$key" ] || fail "there is no public key $key"
sed -n 2p "$key" | grep -Eqx 'RW[A-Za-z0-9+/]{54}' || fail "$key is no public key of minisign: its second line is not the key"
key=$(realpath -- "$key")
CDPATH='' cd -- "$folder"
# Names of ordinary characters only, so that the comparison by lines below compares names.
extra=$(find . -mindepth 1 '(' ! -type f -o -name '*[!A-Za-z0-9._~+-]*' ')' -print -quit)
[ -z "$extra" ] || fail "$extra is not part of the release; remove it"
if [ -f UNSIGNED ] || ! [ -f SHA256SUMS.minisig ]; then fail "the release in $folder is not signed"; fi
[ -f SHA256SUMS ] || fail "SHA256SUMS is missing in $folder"
# Prints the number of the key in the file of a public key or a signature.
number_of() { sed -n 2p "$1" | base64 -d 2>/dev/null | od -An -tx1 -j2 -N8 2>/dev/null; }
[ "$(number_of SHA256SUMS.minisig)" = "$(number_of "$key")" ] || fail "the release is signed with another key than $key"
comment=$(minisign -V -Q -p "$key" -m SHA256SUMS 2>/dev/null) || fail "SHA256SUMS or its signature was changed"
[ "$comment" = "kubernetsn $version" ] || fail "this is release \"$comment\", and not \"kubernetsn $version\""
names=$(sed 's/^[0-9a-f]* [ *]//' SHA256SUMS)
for name in $names; do
	[ -f "$name" ] || fail "$name is missing"
done
for name in * .[!.]* ..?*; do
	[ -e "$name" ] || continue # a pattern without a match
	case $name in
	SHA256SUMS | SHA256SUMS.minisig) continue ;;
	esac
	printf '%s\n' "$names" | grep -qxF -- "$name" || fail "$name is not part of the release; remove it"
done
sha256sum --check --strict --quiet SHA256SUMS || fail "a file was changed; download it again"
echo "kubernetsn $version is complete and signed"
