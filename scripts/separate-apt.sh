# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Package lists in the current folder, so that the machine's stay unchanged, from the machine's mirror. Sourced by scripts that fetch
# packages and unpack them.
#
#   prepare_apt LINE...  fetches the lists; each line of sources.list is given without the mirror: "deb bookworm main"
#   apt PROGRAM...       runs apt-get or apt-cache with them, from any folder

prepare_apt() {
	apt_lists=$PWD/apt
	mirror=$(sed -n "s/^URIs: *\([^ ]*debian\/\{0,1\}\)\$/\1/p; s/^deb .*\(http[^ ]*debian\/\{0,1\}\) bookworm .*/\1/p" \
		/etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1) || :
	mkdir -p apt/lists/partial
	for line in "$@"; do
		echo "${line%% *} ${mirror:-http://deb.debian.org/debian} ${line#* }"
	done >apt/sources.list
	apt apt-get update >&2
}

apt() {
	apt_program=$1
	shift
	$apt_program -qq -o Dir::Etc::sourcelist="$apt_lists/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State::lists="$apt_lists/lists" -o Dir::Cache="$apt_lists" -o APT::Sandbox::User=root "$@"
}
