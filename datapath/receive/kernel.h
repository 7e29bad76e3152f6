// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// What the program reads of the kernel's own structures. Only the fields that it reads are here: their places
// come from the running kernel's BTF when it is loaded (CO-RE).
#pragma once

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net {
	__u64 net_cookie;
};

// The kernel wraps the pointer so that it can be left out.
typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
};

struct sk_buff {
	unsigned char *head;
	unsigned char *data;
	__u16 csum_start;
	__u8 ip_summed : 2;
};

#pragma clang attribute pop

// linux/skbuff.h: the sender left the checksum to the device, and the frame has not passed a wire.
#define CHECKSUM_PARTIAL 3
