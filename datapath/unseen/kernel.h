// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// What the program reads of the kernel's own structures. Only the fields that it reads are here: their places
// come from the running kernel's BTF when the program is loaded (CO-RE).
#pragma once

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net;

// The kernel wraps the pointer so that it can be left out.
typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	possible_net_t skc_net;
	unsigned long skc_flags;
};

struct sock {
	struct sock_common __sk_common;
};

struct sk_buff {
	struct sock *sk;
};

struct nsproxy {
	struct net *net_ns;
};

struct task_struct {
	int tgid;
	struct task_struct *group_leader;
	struct nsproxy *nsproxy;
	char comm[16];
};

#pragma clang attribute pop

// The number differs among kernels; this one is asked for by its name only.
enum sock_flags { SOCK_TXTIME };
