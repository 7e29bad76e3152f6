// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// The kernel structures that the program reads, with only the fields that it reads. The offsets of the fields
// come from the running kernel's BTF when it is loaded (CO-RE).
#pragma once

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct nf_hook_entries;

// include/net/netns/netfilter.h, by enum nf_inet_hooks.
struct netns_nf {
	struct nf_hook_entries *hooks_ipv4[2];
	struct nf_hook_entries *hooks_ipv6[2];
};

// include/net/netns/xfrm.h, by direction.
struct netns_xfrm {
	unsigned int policy_count[1];
	__u8 policy_default[1];
};

struct net {
	__u64 net_cookie;
	struct netns_nf nf;
	struct netns_xfrm xfrm;
};

struct bpf_prog;

struct bpf_prog_array_item {
	struct bpf_prog *prog;
};

// Ends with an item without a program.
struct bpf_prog_array {
	struct bpf_prog_array_item items[1];
};

// Looked up in the running kernel by name; include/linux/bpf-cgroup-defs.h.
enum cgroup_bpf_attach_type { CGROUP_INET_INGRESS, CGROUP_UDP4_RECVMSG, CGROUP_UDP6_RECVMSG };

// `effective` has the programs of the cgroup and of all its ancestors.
struct cgroup_bpf {
	struct bpf_prog_array *effective[1];
};

struct cgroup {
	struct cgroup_bpf bpf;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct xfrm_policy;

// All sockets that share a port have one.
struct sock_reuseport {
	struct bpf_prog *prog;
};

// In the kernel this is a struct, so that a kernel without namespaces can omit the pointer.
typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
	struct sock_cgroup_data sk_cgrp_data;
	struct xfrm_policy *sk_policy[1];
	struct sock_reuseport *sk_reuseport_cb;
};

struct sk_buff {
	unsigned char *head;
	unsigned char *data;
	__u16 csum_start;
	__u8 ip_summed : 2;
};

#pragma clang attribute pop

// linux/skbuff.h: the sender left the checksum to the device, and the frame has not been on a wire.
#define CHECKSUM_PARTIAL 3

// linux/netfilter.h
#define HOOK_PRE_ROUTING 0
#define HOOK_LOCAL_IN    1

// linux/xfrm.h
#define XFRM_IN    0 // XFRM_POLICY_IN
#define XFRM_BLOCK 1 // XFRM_USERPOLICY_BLOCK
