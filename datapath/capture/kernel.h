// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// The kernel structures that the programs read, with only the fields that they read. The offsets of the
// fields come from the running kernel's BTF when a program is loaded (CO-RE).
#pragma once

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net;

// In the kernel this is a struct, so that a kernel without namespaces can omit the pointer.
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

// The number differs among kernels and is looked up by its name.
enum sock_flags { SOCK_TXTIME };
