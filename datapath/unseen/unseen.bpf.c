// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// A tc program at the egress of a pod's interface on a network. It drops datagrams that carry a transmit
// time: those that libktsn.so takes never come here, so a program sent this one past the library, and it
// would leave at once, which is early. tsn-cni attaches one program with maps of its own to each interface
// (internal/node/unseen), and they end with it.
//
// It runs in the kernel for each packet of the interface: mostly in the sender's own context, sometimes in a
// soft interrupt (a datagram that waited for its neighbour's address). The first comparison lets nearly
// everything pass.
//
// A transmit time alone says little, because TCP paces its segments by the same field. SOCK_TXTIME of the
// socket says that its program asked for transmit times.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "kernel.h"

// Names of programs that a map holds. What others send is in the sum only.
#define MAX_PROGRAMS 32
#define COMM_BYTES   16

// linux/net.h, which is not for BPF.
#define TYPE_DGRAM 2
#define TYPE_RAW   3

// Read by internal/node/unseen; both sides have the same order and sizes.
struct program {
	char comm[COMM_BYTES];
};

struct sent {
	__u64 datagrams;
	// The process that sent the last one, as the node numbers it.
	__u32 pid;
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} unseen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PROGRAMS);
	__type(key, struct program);
	__type(value, struct sent);
} programs SEC(".maps");

static __always_inline int sends_datagrams(struct __sk_buff *packet)
{
	struct bpf_sock *full = packet->sk ? bpf_sk_fullsock(packet->sk) : NULL;

	return full && (full->type == TYPE_DGRAM || full->type == TYPE_RAW);
}

static __always_inline int asked_for_txtime(const struct sock *sk)
{
	return BPF_CORE_READ(sk, __sk_common.skc_flags) >> bpf_core_enum_value(enum sock_flags, SOCK_TXTIME) &
	       1;
}

// In a soft interrupt the current process is any; one of another network namespace is certainly not the
// sender.
static __always_inline int may_have_sent(struct task_struct *task, const struct sock *sk)
{
	return BPF_CORE_READ(task, nsproxy, net_ns) == BPF_CORE_READ(sk, __sk_common.skc_net.net);
}

static __always_inline void count_program(const struct sock *sk)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct program key = {};
	struct sent first = {}, *known;

	if (!may_have_sent(task, sk))
		return;
	// Threads have names of their own.
	BPF_CORE_READ_INTO(&key.comm, task, group_leader, comm);
	bpf_map_update_elem(&programs, &key, &first, BPF_NOEXIST);
	known = bpf_map_lookup_elem(&programs, &key);
	if (!known)
		return; // there are too many
	__sync_fetch_and_add(&known->datagrams, 1);
	known->pid = BPF_CORE_READ(task, tgid);
}

static __always_inline void count(void)
{
	__u32 only = 0;
	__u64 *sum = bpf_map_lookup_elem(&unseen, &only);

	if (sum)
		__sync_fetch_and_add(sum, 1);
}

// TC_ACT_UNSPEC leaves the packet to other filters of the interface.
SEC("tc")
int ktsn_unseen(struct __sk_buff *packet)
{
	const struct sock *sk;

	if (!packet->tstamp || !sends_datagrams(packet))
		return TC_ACT_UNSPEC;
	// Not packet->sk, in which the verifier allows known fields only.
	sk = BPF_CORE_READ((struct sk_buff *)packet, sk);
	if (!asked_for_txtime(sk))
		return TC_ACT_UNSPEC;
	count();
	count_program(sk);
	return TC_ACT_SHOT;
}

// Reading the kernel's memory is for programs under its licence.
char LICENSE[] SEC("license") = "Dual BSD/GPL";
