// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// Brings datagrams from the uplink into receive rings of applications (ring/receive_layout.h):
//
//   uplink, ingress    ktsn_receive           VXLAN of a pod that asked --> ring of the socket that it is
//   for, or
//                                             the pod's interface, past tunnel device, bridge and queue
//                                             everything else: the kernel's path, as if nothing were here
//   such a socket      ktsn_receive_kernel    counts what the kernel puts into the socket's own queue
//
// ktsn_receive takes what the kernel, with the filter of the node's tunnels (internal/node/overlay/filter),
// would hand to the socket, and less: anything unusual is left to the kernel, which knows what becomes of it.
// It returns TC_ACT_UNSPEC then, so that filters of others behind it are asked.
//
// Both run in soft interrupts. internal/node/receive loads them, attaches the first and fills `peers` and
// `endpoints`; ktsnd fills `sockets`, `rings` and `controls`. Maps are pinned and outlive both.
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

// Records have one of these sizes: the kernel's verifier wants to know it. Each of them costs a loop over the
// record for the checksum.
#define SMALL_RECORD  256
#define MEDIUM_RECORD 2048
#define LARGE_RECORD  9216

// The datagram's UDP header is copied along with its payload: together they are never empty, which the
// verifier insists on, and one range is summed up. It lies where the end of struct ktsn_receive_header comes
// to stand.
#define AT_UDP (sizeof(struct ktsn_receive_header) - sizeof(struct udphdr))

// bpf_csum_diff takes no more before Linux 6.13.
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

// The size is that of the template; each ring has its own.
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

// Sizes, not types: clang leaves the type of what only a template names incomplete.
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

// Everything in front of what is inside the tunnel's frame.
struct tunnel {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct udphdr udp;
	__be32 flags;
	__be32 vni;
	struct ethhdr inner;
} __attribute__((packed, aligned(2)));

// What a datagram says of itself. Addresses of IPv4 are in the first four bytes, before zeros.
struct datagram {
	__u8 source[16];
	__u8 destination[16];
	__u32 family;
	__u32 at_udp; // in the frame
	__u32 bytes;  // of its UDP header and payload
	__u32 end;    // of what IP says that there is, in the frame
	__u8 tos;
	__u8 ttl;
	struct udphdr udp;
};

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

// Most frames of an uplink end here.
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
	const struct ktsn_receive_endpoint *found;

	__builtin_memcpy(key.mac, tunnel->inner.h_dest, ETH_ALEN);
	found = bpf_map_lookup_elem(&endpoints, &key);
	return found && found->uplink == packet->ifindex && found->tunnel_port_be == tunnel->udp.dest &&
			       found->node_be == tunnel->ip.daddr
		       ? found
		       : 0;
}

// A mark of congestion on the tunnel's packet is for the datagram inside (RFC 6040), or against it: the
// kernel does that. The checksum of the outer datagram may be believed unseen (RFC 7348 clause 4), as long as
// the datagram inside has one of its own.
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

// ---- the datagram inside. Functions return a reason to leave it to the kernel, or KTSN_RECEIVE_RECEIVED.

static __always_inline __u32 read_ipv4(struct __sk_buff *packet, struct datagram *datagram)
{
	struct {
		struct iphdr ip;
		struct udphdr udp;
	} inside;

	if (bpf_skb_load_bytes(packet, sizeof(struct tunnel), &inside, sizeof(inside)))
		return KTSN_RECEIVE_LENGTH;
	if (inside.ip.version != 4 || inside.ip.protocol != IPPROTO_UDP)
		return KTSN_RECEIVE_PROTOCOL;
	if (inside.ip.ihl != 5)
		return KTSN_RECEIVE_OPTIONS;
	if (inside.ip.frag_off & bpf_htons(FRAGMENT))
		return KTSN_RECEIVE_FRAGMENT;
	if (!header_sums_up(&inside.ip))
		return KTSN_RECEIVE_HEADER;
	__builtin_memcpy(datagram->source, &inside.ip.saddr, 4);
	__builtin_memcpy(datagram->destination, &inside.ip.daddr, 4);
	datagram->family = KTSN_RECEIVE_IPV4;
	datagram->at_udp = sizeof(struct tunnel) + sizeof(struct iphdr);
	datagram->end = sizeof(struct tunnel) + bpf_ntohs(inside.ip.tot_len);
	datagram->tos = inside.ip.tos;
	datagram->ttl = inside.ip.ttl;
	datagram->udp = inside.udp;
	return KTSN_RECEIVE_RECEIVED;
}

static __always_inline __u32 read_ipv6(struct __sk_buff *packet, struct datagram *datagram)
{
	struct {
		struct ipv6hdr ip;
		struct udphdr udp;
	} inside;

	if (bpf_skb_load_bytes(packet, sizeof(struct tunnel), &inside, sizeof(inside)))
		return KTSN_RECEIVE_LENGTH;
	if (inside.ip.nexthdr == IPPROTO_FRAGMENT)
		return KTSN_RECEIVE_FRAGMENT;
	if (inside.ip.version != 6 || inside.ip.nexthdr != IPPROTO_UDP)
		return KTSN_RECEIVE_PROTOCOL;
	if (!inside.udp.check)
		return KTSN_RECEIVE_CHECKSUM;
	__builtin_memcpy(datagram->source, &inside.ip.saddr, 16);
	__builtin_memcpy(datagram->destination, &inside.ip.daddr, 16);
	datagram->family = KTSN_RECEIVE_IPV6;
	datagram->at_udp = sizeof(struct tunnel) + sizeof(struct ipv6hdr);
	datagram->end = datagram->at_udp + bpf_ntohs(inside.ip.payload_len);
	datagram->tos = inside.ip.priority << 4 | inside.ip.flow_lbl[0] >> 4;
	datagram->ttl = inside.ip.hop_limit;
	datagram->udp = inside.udp;
	return KTSN_RECEIVE_RECEIVED;
}

// Neither may UDP say less than IP, as the kernel accepts, nor more. The outer datagram ends where the frame
// may have been filled up.
static __always_inline int lengths_agree(const struct tunnel *tunnel, struct datagram *datagram)
{
	datagram->bytes = bpf_ntohs(datagram->udp.len);
	return datagram->bytes >= sizeof(struct udphdr) &&
	       datagram->at_udp + datagram->bytes == datagram->end &&
	       datagram->end <= sizeof(struct ethhdr) + bpf_ntohs(tunnel->ip.tot_len);
}

// A link-local source is one of an interface, which the kernel knows better.
static __always_inline int is_possible_source(const struct datagram *datagram)
{
	const __u8 *at = datagram->source;
	const __u32 *words = (const void *)at;

	if (datagram->family == KTSN_RECEIVE_IPV4)
		return at[0] && at[0] != 127 && at[0] < 224 && !(at[0] == 169 && at[1] == 254);
	// Neither ::/32, which has ::1 and IPv4 in it, nor fe80::/10 and the like, nor groups.
	return words[0] && at[0] < 0xfe;
}

static __always_inline int is_equal(const __u8 *a, const __u8 *b)
{
	const __u32 *one = (const void *)a, *other = (const void *)b;

	return one[0] == other[0] && one[1] == other[1] && one[2] == other[2] && one[3] == other[3];
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

// The verifier allows no arithmetic with its pointer to a socket; what is read of memory is a number.
static __always_inline const struct sock *kernels_own(struct bpf_sock *sk)
{
	struct bpf_sock *volatile stored = sk;
	const struct sock *kernel = 0;

	return bpf_probe_read_kernel(&kernel, sizeof(kernel), (const void *)&stored) ? 0 : kernel;
}

// nftables, the older tables, connection tracking, IPVS: each has hooks only in namespaces that use it.
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

// The last are those that change where a datagram seems to come from, when it is read.
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

// Without one the kernel chooses by a hash of the addresses, here as well.
static __always_inline int has_reuseport_program(const struct sock *kernel)
{
	const struct sock_reuseport *group = BPF_CORE_READ(kernel, sk_reuseport_cb);

	return group && BPF_CORE_READ(group, prog);
}

// A socket with a ring. It is asked of each datagram, since rules come and go.
static __always_inline __u32 judge_socket(struct bpf_sock *sk, const struct datagram *datagram,
					  const struct ktsn_receive_endpoint *endpoint)
{
	const struct sock *kernel = kernels_own(sk);
	const struct net *net;

	if (!kernel || sk->bound_dev_if)
		return KTSN_RECEIVE_FOREIGN;
	net = BPF_CORE_READ(kernel, __sk_common.skc_net.net);
	// The number of a namespace is used again, and an entry may be older than the one that has it now.
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

static __always_inline struct bpf_sock *look_up(struct __sk_buff *packet, const struct datagram *datagram,
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

// Finds the id of the socket's ring. A socket that is bound to a device compares with the uplink's number
// here.
static __always_inline __u32 find_socket(struct __sk_buff *packet, const struct datagram *datagram,
					 const struct ktsn_receive_endpoint *endpoint, __u64 *id)
{
	struct bpf_sock *sk = look_up(packet, datagram, endpoint);
	const struct ktsn_receive_socket *stored;
	__u32 why = KTSN_RECEIVE_NO_SOCKET;

	if (!sk)
		return why;
	stored = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (stored) {
		*id = stored->id;
		why = judge_socket(sk, datagram, endpoint);
	}
	bpf_sk_release(sk);
	return why;
}

// ---- the ring

// The checksum of a frame that never left this machine may still be left to a device: then the kernel
// believes it, too.
static __always_inline int is_believed(struct __sk_buff *packet, const struct datagram *datagram)
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

	// The zeros behind addresses of IPv4 add nothing.
	__builtin_memcpy(pseudo.addresses, datagram->source, 16);
	__builtin_memcpy(pseudo.addresses + 16, datagram->destination, 16);
	sum = bpf_csum_diff(0, 0, (void *)&pseudo, sizeof(pseudo), 0);
#pragma unroll
	for (__u32 at = 0; at < capacity; at += SUMMED_AT_ONCE) {
		const __u32 most = capacity - at < SUMMED_AT_ONCE ? capacity - at : SUMMED_AT_ONCE;
		__u32 now;

		if (at >= bytes)
			break;
		now = (bytes - at + 3) & ~3U;
		if (now > most)
			now = most;
		sum = bpf_csum_diff(0, 0, (void *)(udp + at), now, sum);
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

// The reader says that it sleeps, and then looks at the ring's position once more; here the position, which
// bpf_ringbuf_reserve has stored, comes first, and then what the reader says. In between both have a full
// barrier.
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
	// Two tests in 64 bits, of the register that is used: the verifier of Linux 6.1 does not follow what
	// clang makes of them otherwise.
	asm volatile("" : "+r"(bytes));
	if (bytes < sizeof(struct udphdr))
		goto refuse;
	asm volatile("" : "+r"(bytes));
	if (bytes > capacity - 4)
		goto refuse;
	asm volatile("" : "+r"(bytes));
	*(__u32 *)(udp + (bytes & ~3ULL)) = 0; // what is summed up behind the end
	if (bpf_skb_load_bytes(packet, datagram->at_udp, udp, bytes))
		goto refuse;
	if (datagram->udp.check && !is_believed(packet, datagram) && !sums_up(datagram, udp, bytes, capacity))
		goto refuse;
	describe((struct ktsn_receive_header *)record, datagram, endpoint);
	bpf_ringbuf_submit(record, wakeup(control));
	leave(KTSN_RECEIVE_RECEIVED);
	return TC_ACT_STOLEN;
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

// For those who ask why a ring stays empty (ktsnd's status). In the order of both enumerations.
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

// The sum that a device is still to fill in has to be the inner datagram's: the outer header goes.
static __always_inline int is_summed_inside(struct __sk_buff *packet, const struct datagram *datagram)
{
	const struct sk_buff *kernel = (const struct sk_buff *)packet;

	return BPF_CORE_READ_BITFIELD_PROBED(kernel, ip_summed) != CHECKSUM_PARTIAL ||
	       is_believed(packet, datagram);
}

// Takes the tunnel's headers off, and has the packet come in by the pod's interface as if it had passed
// tunnel and bridge: packet filters, rp_filter and programs of the pod see it. The kernel forgets what a
// device said of the outer checksum (bpf_skb_adjust_room without BPF_F_ADJ_ROOM_NO_CSUM_RESET). IPv6 stays
// the kernel's: what is in the frame would be called IPv4.
static __always_inline int hand_over(struct __sk_buff *packet, struct tunnel *tunnel,
				     const struct datagram *datagram,
				     const struct ktsn_receive_endpoint *endpoint, __u32 why)
{
	__u32 port = endpoint->port;

	if (!(endpoint->has & KTSN_RECEIVE_REDIRECT) || datagram->family != KTSN_RECEIVE_IPV4 || !port ||
	    !is_summed_inside(packet, datagram))
		return leave(why);
	if (bpf_skb_adjust_room(packet, -(__s32)(sizeof(*tunnel) - sizeof(struct ethhdr)), BPF_ADJ_ROOM_MAC,
				0))
		return leave(why);
	if (bpf_skb_store_bytes(packet, 0, &tunnel->inner, 2 * ETH_ALEN,
				BPF_F_RECOMPUTE_CSUM | BPF_F_INVALIDATE_HASH)) {
		leave(KTSN_RECEIVE_LENGTH);
		return TC_ACT_SHOT; // without its tunnel it would be somebody else's
	}
	packet->mark = 0; // the node's
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

// Its return value is how much of the datagram the socket gets: all.
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
