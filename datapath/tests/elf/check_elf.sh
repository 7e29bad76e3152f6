#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One libktsn.so loads into glibc and musl programs alike: it needs no other library and no version of a
# symbol, and it exports exactly the intercepted functions.
#
#     check_elf.sh path/to/libktsn.so
set -eu
export LC_ALL=C

library=$1
expected='__poll_chk __ppoll_chk __read_chk __recv_chk __recvfrom_chk bind close close_range closefrom connect dup dup2 dup3 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait fcntl fcntl64 fork getsockopt ioctl poll ppoll pselect read readv recv recvfrom recvmmsg recvmsg select send sendmmsg sendmsg sendto setsockopt shutdown socket syscall write writev'
failed=0

complain() {
	printf '%s: %s\n' "$library" "$1"
	failed=1
}

# Each in a variable first: a pipe would hide that readelf failed.
dynamic=$(readelf --dynamic --wide "$library")
versions=$(readelf --version-info --wide "$library")
symbols=$(readelf --dyn-syms --wide "$library")
segments=$(readelf --program-headers --wide "$library")

if printf '%s\n' "$dynamic" | grep -E '\((NEEDED|RPATH|RUNPATH)\)'; then
	complain 'needs other libraries'
fi
if printf '%s\n' "$dynamic" | grep -E '\((VERNEED|TEXTREL)\)' || printf '%s\n' "$versions" | grep -i 'version needs'; then
	complain 'needs versions of symbols, or relocates its text'
fi
# Only the C library may lay out thread-local memory.
if printf '%s\n' "$segments" | grep -E '^ *TLS '; then
	complain 'has thread-local variables'
fi

# Num: Value Size Type Bind Vis Ndx Name; undefined ones have the index UND.
exported=$(printf '%s\n' "$symbols" | awk '$7 ~ /^[0-9]+$|^ABS$|^COM$/ {print $8}' | sort | tr '\n' ' ')
if [ "${exported% }" != "$expected" ]; then
	complain "exports \"${exported% }\", not \"$expected\""
fi
unknown=$(printf '%s\n' "$symbols" | awk '$5 ~ /^(GLOBAL|WEAK)$/ && $4 !~ /^FUNC$/ && $7 != "UND" {print $8}')
if [ -n "$unknown" ]; then
	complain "exports what is not a function: $unknown"
fi
exit $failed
