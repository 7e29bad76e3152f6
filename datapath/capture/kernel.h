// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// What the programs read of the kernel's own structures. Only the fields that they read are here: their
// places come from the running kernel's BTF when a program is loaded (CO-RE).
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
	// The clock of SO_TXTIME, as clock_gettime numbers it.
	unsigned char sk_clockid;
	unsigned char sk_txtime_deadline_mode : 1;
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
