// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// Brings datagrams from the uplink into receive rings of applications (ring/receive_layout.h):
//
//   uplink, ingress    ktsn_receive           VXLAN for a pod with receive rings --> the socket's ring, or
//   the
//                                             pod's interface without tunnel device, bridge and queue
//                                             everything else --> the kernel
//   such a socket      ktsn_receive_kernel    counts datagrams that the kernel puts into the socket's own
//   queue
//
// ktsn_receive takes only datagrams that the kernel, with the filter of the node's tunnels
// (internal/node/overlay/filter), would put into the socket's queue too, but not all of these: it leaves
// unusual ones to the kernel. Then it returns TC_ACT_UNSPEC, so that later filters run.
//
// Both run in soft interrupts. internal/node/receive loads them, attaches the first and fills `peers` and
// `endpoints`; ktsnd fills `sockets`, `rings` and `controls`. The maps are pinned and stay if both end.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "kernel.h"
#include "receive_layout.h"
#include "receive_maps.h"

#define VXLAN_VNI_IS_VALID 0x08000000 // all other bits are reserved, or of extensions
#define VXLAN_RESERVED     0xff       // of the word with the VNI
#define FRAGMENT           0x3fff     // offset and more fragments; not: don't fragment
#define ECN_MARK           1 // congestion experienced, and ECT(1), which some nodes take for less of it

#define MAX_PEERS     (1 << 18)
#define MAX_ENDPOINTS 4096
#define MAX_SOCKETS   16384

// Records have one of these sizes, because the kernel's verifier requires a constant. Each size needs a loop
// of its own for the checksum.
#define SMALL_RECORD  256
#define MEDIUM_RECORD 2048
#define LARGE_RECORD  9216

// The datagram's UDP header is copied together with its payload: so the copy is never empty, which the
// verifier requires, and the checksum is over one range. The end of struct ktsn_receive_header later
// overwrites it.
#define AT_UDP (sizeof(struct ktsn_receive_header) - sizeof(struct udphdr))

// The limit of bpf_csum_diff before Linux 6.13.
#define SUMMED_AT_ONCE 512

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_PEERS);
	__type(key, struct ktsn_receive_peer);
	__type(value, __u8);
} peers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_ENDPOINTS);
	__type(key, struct ktsn_receive_endpoint_key);
	__type(value, struct ktsn_receive_endpoint);
} endpoints SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct ktsn_receive_socket);
} sockets SEC(".maps");

// This size is only for the template; each ring has its own.
struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, MAX_SOCKETS);
	__uint(key_size, sizeof(__u64));
	__array(values, struct ring);
} rings SEC(".maps");

// Sizes, not types: clang leaves a type incomplete that only a template uses.
struct control {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct ktsn_receive_control));
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, MAX_SOCKETS);
	__uint(key_size, sizeof(__u64));
	__array(values, struct control);
} controls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, KTSN_RECEIVE_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

// All headers before the content of the inner frame.
struct tunnel {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct udphdr udp;
	__be32 flags;
	__be32 vni;
	struct ethhdr inner;
} __attribute__((packed, aligned(2)));

// The values from a datagram's headers. IPv4 addresses are in the first four bytes, followed by zeros.
struct datagram {
	__u8 source[16];
	__u8 destination[16];
	__u32 family;
	__u32 at_udp; // in the frame
	__u32 bytes;  // of its UDP header and payload
	__u32 end;    // of the IP packet by its own length, in the frame
	__u8 tos;
	__u8 ttl;
	struct udphdr udp;
};

// The verdict about a datagram that is in a ring. A filter of clsact returns TC_ACT_STOLEN, which does not
// count as a drop. For tcx, which would pass the frame on, the loader sets it to TCX_DROP.
const volatile int taken_verdict = TC_ACT_STOLEN;

static __always_inline int leave(__u32 why)
{
	__u64 *sum = bpf_map_lookup_elem(&counts, &why);

	if (sum)
		*sum += 1;
	return TC_ACT_UNSPEC;
}

static __always_inline __u16 folded(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static __always_inline int header_sums_up(const void *ip)
{
	const __u16 *words = ip;
	__u32 sum = 0;

#pragma unroll
	for (__u32 i = 0; i < sizeof(struct iphdr) / sizeof(*words); i++)
		sum += words[i];
	return folded(sum) == 0xffff;
}

// ---- the tunnel

// False for most frames of an uplink.
static __always_inline int is_tunnel(struct __sk_buff *packet, const struct tunnel *tunnel)
{
	return packet->protocol == bpf_htons(ETH_P_IP) && !packet->vlan_present &&
	       tunnel->ethernet.h_proto == bpf_htons(ETH_P_IP) && tunnel->ip.version == 4 &&
	       tunnel->ip.ihl == 5 && tunnel->ip.protocol == IPPROTO_UDP &&
	       !(tunnel->ip.frag_off & bpf_htons(FRAGMENT)) &&
	       tunnel->flags == bpf_htonl(VXLAN_VNI_IS_VALID) && !(tunnel->vni & bpf_htonl(VXLAN_RESERVED));
}

static __always_inline const struct ktsn_receive_endpoint *endpoint_of(struct __sk_buff *packet,
								       const struct tunnel *tunnel)
{
	struct ktsn_receive_endpoint_key key = {.vni = bpf_ntohl(tunnel->vni) >> 8};
	const struct ktsn_receive_endpoint *endpoint;

	__builtin_memcpy(key.mac, tunnel->inner.h_dest, ETH_ALEN);
	endpoint = bpf_map_lookup_elem(&endpoints, &key);
	return endpoint && endpoint->uplink == packet->ifindex &&
			       endpoint->tunnel_port_be == tunnel->udp.dest &&
			       endpoint->node_be == tunnel->ip.daddr
		       ? endpoint
		       : 0;
}

// The kernel handles packets with a congestion mark, because it must apply the mark to the inner datagram or
// drop it (RFC 6040). The checksum of the outer datagram need not be checked (RFC 7348 clause 4) if the inner
// datagram has one of its own.
static __always_inline int is_sound(struct __sk_buff *packet, const struct tunnel *tunnel)
{
	__u32 ip_bytes = bpf_ntohs(tunnel->ip.tot_len);

	return header_sums_up(&tunnel->ip) && !(tunnel->ip.tos & ECN_MARK) &&
	       ip_bytes == bpf_ntohs(tunnel->udp.len) + sizeof(struct iphdr) &&
	       packet->len >= sizeof(struct ethhdr) + ip_bytes && !(tunnel->inner.h_source[0] & 1) &&
	       (tunnel->inner.h_source[0] | tunnel->inner.h_source[1] | tunnel->inner.h_source[2] |
		tunnel->inner.h_source[3] | tunnel->inner.h_source[4] | tunnel->inner.h_source[5]);
}

static __always_inline int is_behind_peer(const struct tunnel *tunnel, const struct datagram *datagram)
{
	struct ktsn_receive_peer key = {
		.prefix_bits = KTSN_RECEIVE_PEER_BITS + 8 * sizeof(key.source),
		.vni = bpf_ntohl(tunnel->vni) >> 8,
		.node_be = tunnel->ip.daddr,
		.peer_be = tunnel->ip.saddr,
		.family = datagram->family,
	};

	__builtin_memcpy(key.source, datagram->source, sizeof(key.source));
	return bpf_map_lookup_elem(&peers, &key) != 0;
}

// ---- the inner datagram. Functions return a reason to leave it to the kernel, or KTSN_RECEIVE_RECEIVED.

static __always_inline __u32 read_ipv4(struct __sk_buff *packet, struct datagram *datagram)
{
	struct {
		struct iphdr ip;
		struct udphdr udp;
	} inner;

	if (bpf_skb_load_bytes(packet, sizeof(struct tunnel), &inner, sizeof(inner)))
		return KTSN_RECEIVE_LENGTH;
	if (inner.ip.version != 4 || inner.ip.protocol != IPPROTO_UDP)
		return KTSN_RECEIVE_PROTOCOL;
	if (inner.ip.ihl != 5)
		return KTSN_RECEIVE_OPTIONS;
	if (inner.ip.frag_off & bpf_htons(FRAGMENT))
		return KTSN_RECEIVE_FRAGMENT;
	if (!header_sums_up(&inner.ip))
		return KTSN_RECEIVE_HEADER;
	__builtin_memcpy(datagram->source, &inner.ip.saddr, 4);
	__builtin_memcpy(datagram->destination, &inner.ip.daddr, 4);
	datagram->family = KTSN_RECEIVE_IPV4;
	datagram->at_udp = sizeof(struct tunnel) + sizeof(struct iphdr);
	datagram->end = sizeof(struct tunnel) + bpf_ntohs(inner.ip.tot_len);
	datagram->tos = inner.ip.tos;
	datagram->ttl = inner.ip.ttl;
	datagram->udp = inner.udp;
	return KTSN_RECEIVE_RECEIVED;
}

static __always_inline __u32 read_ipv6(struct __sk_buff *packet, struct datagram *datagram)
{
	struct {
		struct ipv6hdr ip;
		struct udphdr udp;
	} inner;

	if (bpf_skb_load_bytes(packet, sizeof(struct tunnel), &inner, sizeof(inner)))
		return KTSN_RECEIVE_LENGTH;
	if (inner.ip.nexthdr == IPPROTO_FRAGMENT)
		return KTSN_RECEIVE_FRAGMENT;
	if (inner.ip.version != 6 || inner.ip.nexthdr != IPPROTO_UDP)
		return KTSN_RECEIVE_PROTOCOL;
	if (!inner.udp.check)
		return KTSN_RECEIVE_CHECKSUM;
	__builtin_memcpy(datagram->source, &inner.ip.saddr, 16);
	__builtin_memcpy(datagram->destination, &inner.ip.daddr, 16);
	datagram->family = KTSN_RECEIVE_IPV6;
	datagram->at_udp = sizeof(struct tunnel) + sizeof(struct ipv6hdr);
	datagram->end = datagram->at_udp + bpf_ntohs(inner.ip.payload_len);
	datagram->tos = inner.ip.priority << 4 | inner.ip.flow_lbl[0] >> 4;
	datagram->ttl = inner.ip.hop_limit;
	datagram->udp = inner.udp;
	return KTSN_RECEIVE_RECEIVED;
}

// The lengths of UDP and IP must be equal, though the kernel accepts a shorter UDP length. The frame may be
// padded after the end of the outer datagram.
static __always_inline int lengths_agree(const struct tunnel *tunnel, struct datagram *datagram)
{
	datagram->bytes = bpf_ntohs(datagram->udp.len);
	return datagram->bytes >= sizeof(struct udphdr) &&
	       datagram->at_udp + datagram->bytes == datagram->end &&
	       datagram->end <= sizeof(struct ethhdr) + bpf_ntohs(tunnel->ip.tot_len);
}

// Link-local sources are left to the kernel, because they belong to an interface.
static __always_inline int is_possible_source(const struct datagram *datagram)
{
	const __u8 *at = datagram->source;
	const __u32 *words = (const void *)at;

	if (datagram->family == KTSN_RECEIVE_IPV4)
		return at[0] && at[0] != 127 && at[0] < 224 && !(at[0] == 169 && at[1] == 254);
	// Excludes ::/32, which contains ::1 and IPv4 addresses, and fe00::/7 with link-local addresses and
	// groups.
	return words[0] && at[0] < 0xfe;
}

static __always_inline int is_equal(const __u8 *a, const __u8 *b)
{
	const __u32 *words_a = (const void *)a, *words_b = (const void *)b;

	return words_a[0] == words_b[0] && words_a[1] == words_b[1] && words_a[2] == words_b[2] &&
	       words_a[3] == words_b[3];
}

static __always_inline int is_destination(const struct datagram *datagram,
					  const struct ktsn_receive_endpoint *endpoint)
{
	if (datagram->family == KTSN_RECEIVE_IPV4)
		return endpoint->has & KTSN_RECEIVE_HAS_IPV4 &&
		       *(const __u32 *)datagram->destination == endpoint->ipv4_be &&
		       *(const __u32 *)datagram->source != endpoint->ipv4_be;
	return endpoint->has & KTSN_RECEIVE_HAS_IPV6 && is_equal(datagram->destination, endpoint->ipv6) &&
	       !is_equal(datagram->source, endpoint->ipv6);
}

static __always_inline __u32 read_datagram(struct __sk_buff *packet, const struct tunnel *tunnel,
					   const struct ktsn_receive_endpoint *endpoint,
					   struct datagram *datagram)
{
	__u32 why = KTSN_RECEIVE_PROTOCOL;

	if (tunnel->inner.h_proto == bpf_htons(ETH_P_IP))
		why = read_ipv4(packet, datagram);
	else if (tunnel->inner.h_proto == bpf_htons(ETH_P_IPV6))
		why = read_ipv6(packet, datagram);
	if (why != KTSN_RECEIVE_RECEIVED)
		return why;
	if (tunnel->udp.check && !datagram->udp.check)
		return KTSN_RECEIVE_CHECKSUM;
	if (!lengths_agree(tunnel, datagram))
		return KTSN_RECEIVE_LENGTH;
	if (!is_destination(datagram, endpoint))
		return KTSN_RECEIVE_DESTINATION;
	if (!is_possible_source(datagram))
		return KTSN_RECEIVE_SOURCE;
	return is_behind_peer(tunnel, datagram) ? KTSN_RECEIVE_RECEIVED : KTSN_RECEIVE_PEER;
}

// ---- the socket

// Converts the verifier's pointer to a socket, with which it allows no arithmetic: a value that is read from
// memory is only a number to it.
static __always_inline const struct sock *kernel_socket(struct bpf_sock *sk)
{
	struct bpf_sock *volatile stored = sk;
	const struct sock *kernel = 0;

	return bpf_probe_read_kernel(&kernel, sizeof(kernel), (const void *)&stored) ? 0 : kernel;
}

// nftables, iptables, connection tracking and IPVS have hooks only in namespaces that use them.
static __always_inline int has_packet_filter(const struct net *net, const struct datagram *datagram)
{
	if (!bpf_core_field_exists(net->nf))
		return 0;
	if (datagram->family == KTSN_RECEIVE_IPV4)
		return BPF_CORE_READ(net, nf.hooks_ipv4[HOOK_PRE_ROUTING]) ||
		       BPF_CORE_READ(net, nf.hooks_ipv4[HOOK_LOCAL_IN]);
	return BPF_CORE_READ(net, nf.hooks_ipv6[HOOK_PRE_ROUTING]) ||
	       BPF_CORE_READ(net, nf.hooks_ipv6[HOOK_LOCAL_IN]);
}

static __always_inline int has_policy(const struct sock *kernel, const struct net *net)
{
	if (!bpf_core_field_exists(net->xfrm))
		return 0;
	return BPF_CORE_READ(net, xfrm.policy_count[XFRM_IN]) || BPF_CORE_READ(kernel, sk_policy[XFRM_IN]) ||
	       (bpf_core_field_exists(net->xfrm.policy_default) &&
		BPF_CORE_READ(net, xfrm.policy_default[XFRM_IN]) == XFRM_BLOCK);
}

static __always_inline int has_program(const struct cgroup *cgroup, __u32 place)
{
	struct bpf_prog_array *const *effective = &cgroup->bpf.effective[0];
	const struct bpf_prog_array *programs = 0;

	if (bpf_probe_read_kernel(&programs, sizeof(programs), effective + place))
		return 0;
	return programs && BPF_CORE_READ(programs, items[0].prog);
}

// Programs for RECVMSG count, because they change the source address of a datagram when it is read.
static __always_inline int has_cgroup_program(const struct sock *kernel, __u32 family)
{
	const struct cgroup *cgroup = 0;

	if (!bpf_core_field_exists(kernel->sk_cgrp_data.cgroup) || !bpf_core_field_exists(cgroup->bpf))
		return 0;
	cgroup = BPF_CORE_READ(kernel, sk_cgrp_data.cgroup);
	if (!cgroup)
		return 0;
	return has_program(cgroup, bpf_core_enum_value(enum cgroup_bpf_attach_type, CGROUP_INET_INGRESS)) ||
	       has_program(cgroup,
			   family == KTSN_RECEIVE_IPV6
				   ? bpf_core_enum_value(enum cgroup_bpf_attach_type, CGROUP_UDP6_RECVMSG)
				   : bpf_core_enum_value(enum cgroup_bpf_attach_type, CGROUP_UDP4_RECVMSG));
}

// Without a program the kernel chooses the socket by a hash of the addresses, also in bpf_sk_lookup_udp.
static __always_inline int has_reuseport_program(const struct sock *kernel)
{
	const struct sock_reuseport *group = BPF_CORE_READ(kernel, sk_reuseport_cb);

	return group && BPF_CORE_READ(group, prog);
}

// Checks a socket with a ring. Called for each datagram, because filters and policies may change at any time.
static __always_inline __u32 check_socket(struct bpf_sock *sk, const struct datagram *datagram,
					  const struct ktsn_receive_endpoint *endpoint)
{
	const struct sock *kernel = kernel_socket(sk);
	const struct net *net;

	if (!kernel || sk->bound_dev_if)
		return KTSN_RECEIVE_FOREIGN;
	net = BPF_CORE_READ(kernel, __sk_common.skc_net.net);
	// The kernel reuses the id of a namespace, and the entry may be for an earlier namespace with that
	// id.
	if (BPF_CORE_READ(net, net_cookie) != endpoint->netns_cookie)
		return KTSN_RECEIVE_FOREIGN;
	if (has_packet_filter(net, datagram))
		return KTSN_RECEIVE_PACKET_FILTER;
	if (has_policy(kernel, net))
		return KTSN_RECEIVE_POLICY;
	if (has_cgroup_program(kernel, sk->family))
		return KTSN_RECEIVE_CGROUP_PROGRAM;
	return has_reuseport_program(kernel) ? KTSN_RECEIVE_REUSEPORT_PROGRAM : KTSN_RECEIVE_RECEIVED;
}

static __always_inline struct bpf_sock *socket_lookup(struct __sk_buff *packet,
						      const struct datagram *datagram,
						      const struct ktsn_receive_endpoint *endpoint)
{
	struct bpf_sock_tuple tuple = {};

	if (datagram->family == KTSN_RECEIVE_IPV4) {
		__builtin_memcpy(&tuple.ipv4.saddr, datagram->source, 4);
		__builtin_memcpy(&tuple.ipv4.daddr, datagram->destination, 4);
		tuple.ipv4.sport = datagram->udp.source;
		tuple.ipv4.dport = datagram->udp.dest;
		return bpf_sk_lookup_udp(packet, &tuple, sizeof(tuple.ipv4), (__u32)endpoint->netns_id, 0);
	}
	__builtin_memcpy(tuple.ipv6.saddr, datagram->source, 16);
	__builtin_memcpy(tuple.ipv6.daddr, datagram->destination, 16);
	tuple.ipv6.sport = datagram->udp.source;
	tuple.ipv6.dport = datagram->udp.dest;
	return bpf_sk_lookup_udp(packet, &tuple, sizeof(tuple.ipv6), (__u32)endpoint->netns_id, 0);
}

// Finds the id of the socket's ring. For a socket that is bound to a device this lookup compares with the
// uplink.
static __always_inline __u32 find_socket(struct __sk_buff *packet, const struct datagram *datagram,
					 const struct ktsn_receive_endpoint *endpoint, __u64 *id)
{
	struct bpf_sock *sk = socket_lookup(packet, datagram, endpoint);
	const struct ktsn_receive_socket *stored;
	__u32 why = KTSN_RECEIVE_NO_SOCKET;

	if (!sk)
		return why;
	stored = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (stored) {
		*id = stored->id;
		why = check_socket(sk, datagram, endpoint);
	}
	bpf_sk_release(sk);
	return why;
}

// ---- the ring

// Whether a frame never left this machine and its checksum is still left to a device: then the kernel trusts
// it, too.
static __always_inline int is_checksum_trusted(struct __sk_buff *packet, const struct datagram *datagram)
{
	const struct sk_buff *kernel = (const struct sk_buff *)packet;
	const unsigned char *head, *data;

	if (BPF_CORE_READ_BITFIELD_PROBED(kernel, ip_summed) != CHECKSUM_PARTIAL)
		return 0;
	head = BPF_CORE_READ(kernel, head);
	data = BPF_CORE_READ(kernel, data);
	return head + BPF_CORE_READ(kernel, csum_start) == data + datagram->at_udp;
}

static __always_inline int sums_up(const struct datagram *datagram, __u8 *udp, __u32 bytes,
				   const __u32 capacity)
{
	struct {
		__u8 addresses[32];
		__be32 length;
		__be32 protocol;
	} pseudo = {.length = bpf_htonl(bytes), .protocol = bpf_htonl(IPPROTO_UDP)};
	__s64 sum;

	// The zeros after IPv4 addresses add nothing to the sum.
	__builtin_memcpy(pseudo.addresses, datagram->source, 16);
	__builtin_memcpy(pseudo.addresses + 16, datagram->destination, 16);
	sum = bpf_csum_diff(0, 0, (void *)&pseudo, sizeof(pseudo), 0);
#pragma unroll
	for (__u32 at = 0; at < capacity; at += SUMMED_AT_ONCE) {
		const __u32 limit = capacity - at < SUMMED_AT_ONCE ? capacity - at : SUMMED_AT_ONCE;
		__u32 length;

		if (at >= bytes)
			break;
		length = (bytes - at + 3) & ~3U;
		if (length > limit)
			length = limit;
		sum = bpf_csum_diff(0, 0, (void *)(udp + at), length, sum);
	}
	return folded(sum) == 0xffff;
}

static __always_inline void describe(struct ktsn_receive_header *header, const struct datagram *datagram,
				     const struct ktsn_receive_endpoint *endpoint)
{
	header->time_tai_ns = bpf_ktime_get_tai_ns();
	header->family = datagram->family;
	header->source_port_be = datagram->udp.source;
	header->payload_bytes = datagram->bytes - sizeof(struct udphdr);
	header->tos = datagram->tos;
	header->ttl = datagram->ttl;
	header->interface = endpoint->interface;
	header->reserved = 0;
	__builtin_memcpy(header->source, datagram->source, sizeof(header->source));
	__builtin_memcpy(header->destination, datagram->destination, sizeof(header->destination));
}

// The reader sets `sleeping` and then reads the ring's position again. Here the order is the opposite:
// bpf_ringbuf_reserve has stored the position, and then this reads `sleeping`. Both have a full barrier in
// between.
static __always_inline __u64 wakeup(struct ktsn_receive_control *control)
{
	__u64 before = __sync_fetch_and_add(&control->received, 1);

	asm volatile("" : : "r"(before) : "memory");
	return *(volatile __u32 *)&control->sleeping ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline int put(struct __sk_buff *packet, const struct datagram *datagram,
			       const struct ktsn_receive_endpoint *endpoint, void *ring,
			       struct ktsn_receive_control *control, const __u32 record_bytes)
{
	const __u32 capacity = record_bytes - AT_UDP;
	__u64 bytes = datagram->bytes;
	__u8 *record = bpf_ringbuf_reserve(ring, record_bytes, 0);
	__u8 *udp;

	if (!record) {
		__sync_fetch_and_add(&control->dropped, 1);
		leave(KTSN_RECEIVE_FULL);
		return TC_ACT_SHOT;
	}
	udp = record + AT_UDP;
	// Two 64-bit tests of the register that is used later: otherwise the verifier of Linux 6.1 does not
	// understand the code that clang generates.
	asm volatile("" : "+r"(bytes));
	if (bytes < sizeof(struct udphdr))
		goto refuse;
	asm volatile("" : "+r"(bytes));
	if (bytes > capacity - 4)
		goto refuse;
	asm volatile("" : "+r"(bytes));
	*(__u32 *)(udp + (bytes & ~3ULL)) = 0; // the sum includes up to 3 bytes after the end
	if (bpf_skb_load_bytes(packet, datagram->at_udp, udp, bytes))
		goto refuse;
	if (datagram->udp.check && !is_checksum_trusted(packet, datagram) &&
	    !sums_up(datagram, udp, bytes, capacity))
		goto refuse;
	describe((struct ktsn_receive_header *)record, datagram, endpoint);
	bpf_ringbuf_submit(record, wakeup(control));
	leave(KTSN_RECEIVE_RECEIVED);
	return taken_verdict;
refuse:
	bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
	return leave(KTSN_RECEIVE_CHECKSUM);
}

static __always_inline int fits(const struct datagram *datagram, __u32 record_bytes)
{
	return datagram->bytes <= record_bytes - AT_UDP - 4;
}

static __always_inline struct ktsn_receive_control *control_of(__u64 id)
{
	void *page = bpf_map_lookup_elem(&controls, &id);
	__u32 only = 0;

	return page ? bpf_map_lookup_elem(page, &only) : 0;
}

// Stores the reason for ktsnd's status, which shows why a ring stays empty. Both enumerations have the same
// order.
static __always_inline void note_left(__u64 id, __u32 why)
{
	struct ktsn_receive_control *control;

	if (why < KTSN_RECEIVE_PACKET_FILTER || why > KTSN_RECEIVE_REUSEPORT_PROGRAM)
		return;
	control = control_of(id);
	if (control)
		control->left = why - KTSN_RECEIVE_PACKET_FILTER + KTSN_RECEIVE_LEFT_PACKET_FILTER;
}

static __always_inline int deliver(struct __sk_buff *packet, const struct datagram *datagram,
				   const struct ktsn_receive_endpoint *endpoint, __u64 id)
{
	void *ring = bpf_map_lookup_elem(&rings, &id);
	struct ktsn_receive_control *control = control_of(id);

	if (!ring || !control || !*(volatile __u32 *)&control->readers)
		return leave(KTSN_RECEIVE_NO_RING);
	if (control->left)
		control->left = KTSN_RECEIVE_LEFT_NOT;
	if (fits(datagram, SMALL_RECORD))
		return put(packet, datagram, endpoint, ring, control, SMALL_RECORD);
	if (fits(datagram, MEDIUM_RECORD))
		return put(packet, datagram, endpoint, ring, control, MEDIUM_RECORD);
	if (fits(datagram, LARGE_RECORD))
		return put(packet, datagram, endpoint, ring, control, LARGE_RECORD);
	return leave(KTSN_RECEIVE_TOO_LONG);
}

// ---- the pod's interface

// If a device must still fill in a checksum, it must be that of the inner datagram, because the outer header
// is removed.
static __always_inline int is_tunnel_removable(struct __sk_buff *packet, const struct datagram *datagram)
{
	const struct sk_buff *kernel = (const struct sk_buff *)packet;

	return BPF_CORE_READ_BITFIELD_PROBED(kernel, ip_summed) != CHECKSUM_PARTIAL ||
	       is_checksum_trusted(packet, datagram);
}

// Removes the tunnel's headers and lets the packet enter through the pod's interface as if it had passed
// tunnel and bridge: packet filters, rp_filter and programs of the pod see it. The kernel discards the
// device's result for the outer checksum (bpf_skb_adjust_room without BPF_F_ADJ_ROOM_NO_CSUM_RESET). IPv6 is
// left to the kernel, because the packet's protocol would remain IPv4.
static __always_inline int hand_over(struct __sk_buff *packet, struct tunnel *tunnel,
				     const struct datagram *datagram,
				     const struct ktsn_receive_endpoint *endpoint, __u32 why)
{
	__u32 port = endpoint->port;

	if (!(endpoint->has & KTSN_RECEIVE_REDIRECT) || datagram->family != KTSN_RECEIVE_IPV4 || !port ||
	    !is_tunnel_removable(packet, datagram))
		return leave(why);
	if (bpf_skb_adjust_room(packet, -(__s32)(sizeof(*tunnel) - sizeof(struct ethhdr)), BPF_ADJ_ROOM_MAC,
				0))
		return leave(why);
	if (bpf_skb_store_bytes(packet, 0, &tunnel->inner, 2 * ETH_ALEN,
				BPF_F_RECOMPUTE_CSUM | BPF_F_INVALIDATE_HASH)) {
		leave(KTSN_RECEIVE_LENGTH);
		return TC_ACT_SHOT; // without its tunnel header it could reach another receiver
	}
	packet->mark = 0; // a mark of the node has no meaning in the pod
	leave(KTSN_RECEIVE_REDIRECTED);
	return bpf_redirect_peer(port, 0);
}

SEC("tc")
int ktsn_receive(struct __sk_buff *packet)
{
	const struct ktsn_receive_endpoint *endpoint;
	struct datagram datagram = {};
	struct tunnel tunnel;
	__u64 id = 0;
	__u32 why;

	if (bpf_skb_load_bytes(packet, 0, &tunnel, sizeof(tunnel)) || !is_tunnel(packet, &tunnel))
		return TC_ACT_UNSPEC;
	endpoint = endpoint_of(packet, &tunnel);
	if (!endpoint)
		return leave(KTSN_RECEIVE_NO_ENDPOINT);
	if (packet->pkt_type != PACKET_HOST)
		return leave(KTSN_RECEIVE_NOT_HOST);
	if (packet->gso_size)
		return leave(KTSN_RECEIVE_SEGMENTS);
	if (!is_sound(packet, &tunnel))
		return leave(KTSN_RECEIVE_TUNNEL);
	why = read_datagram(packet, &tunnel, endpoint, &datagram);
	if (why != KTSN_RECEIVE_RECEIVED)
		return leave(why);
	why = endpoint->has & KTSN_RECEIVE_RINGS ? find_socket(packet, &datagram, endpoint, &id)
						 : KTSN_RECEIVE_NO_SOCKET;
	note_left(id, why);
	if (why != KTSN_RECEIVE_RECEIVED)
		return hand_over(packet, &tunnel, &datagram, endpoint, why);
	return deliver(packet, &datagram, endpoint, id);
}

// The return value is how many bytes of the datagram the socket gets: all.
SEC("socket")
int ktsn_receive_kernel(struct __sk_buff *packet)
{
	struct ktsn_receive_control *control = control_of(bpf_get_socket_cookie(packet));

	if (control)
		__sync_fetch_and_add(&control->kernel, 1);
	return packet->len;
}

// Reading the kernel's memory is for programs under its licence.
char LICENSE[] SEC("license") = "Dual BSD/GPL";
