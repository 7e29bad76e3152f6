// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// tc programs that send the frames of a pod that libktsn.so did not take, and those of a virtual machine, to
// the pod's relay:
//
//   pod's interface, egress          ktsn_capture    puts a record before each frame with a transmit time
//   guest's interface, egress        ktsn_guest      the same, with the host's times in the records
//   its node's end, ingress          ktsn_divert     redirects such frames, or all, to the relay's device
//
// There are two programs for each interface, because a packet has its transmit time only inside the pod's
// network namespace or the guest. Messages that libktsn.so takes reach neither. If a frame cannot get a
// record, it is dropped and counted, because it would leave at once, which is too early. tsn-cni attaches the
// programs, each with maps of its own, to each interface (internal/node/capture), and they end with it.
//
// ktsn_capture runs in the kernel for each packet of the interface: mostly in the sender's own context,
// sometimes in a soft interrupt (a datagram that waited for its neighbour's address). The first comparison
// passes nearly all packets. ktsn_divert runs in a soft interrupt.
//
// A transmit time alone is not enough to recognize a timed frame, because TCP paces its segments with the
// same field. SOCK_TXTIME of the socket shows that its program uses transmit times.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "kernel.h"
#include "record.h"

// Number of programs that the map holds. Frames of further programs are counted in the sum only.
#define MAX_PROGRAMS 32
#define COMM_BYTES   16

// linux/net.h, which is not for BPF.
#define TYPE_DGRAM  2
#define TYPE_RAW    3
#define TYPE_PACKET 10

// linux/time.h, which is not for BPF.
#define CLOCK_REALTIME  0
#define CLOCK_MONOTONIC 1
#define CLOCK_TAI       11

#define ADDRESSES_BYTES 12
#define VLAN_TAG_BYTES  4
// IEEE Std 802.1Q clause 9.6.
#define VLAN_PCP_SHIFT 13

// linux/ip.h, linux/ipv6.h, RFC 2710 and RFC 3810.
#define IPV4_AT_PROTOCOL    9
#define IPV6_AT_NEXT_HEADER 6
#define IPV6_BYTES          40
#define OPTION_BYTES        8
#define MLD_QUERY           130
#define MLD_DONE            132
#define MLD2_REPORT         143

// How many bytes of a pod's control frames go to the bridge per second, and how many bytes each frame counts
// at least: 200 short reports, or 67 of the length of an Ethernet frame.
#define MAX_CONTROL_BYTES   102400
#define LEAST_CONTROL_BYTES 512
#define SECOND_NS           1000000000ULL

// How many untimed frames of gated priorities may wait for a relay that does not answer. They share the
// relay's queue of about 1,000 frames with timed ones.
#define MAX_QUEUED 256

// Indexes in the map `counts`. internal/node/capture reads them; both sides must have the same order.
enum count {
	// ktsn_capture; COUNT_NO_ROOM is also ktsn_divert's
	COUNT_CAPTURED,
	COUNT_MODE_NONE,
	COUNT_CLOCK,
	COUNT_NO_ROOM,
	COUNT_TAGS,
	// ktsn_divert
	COUNT_TIMED,
	COUNT_UNTIMED,
	COUNT_SEGMENTS,
	COUNT_NO_RELAY,
	COUNT_PASSED,
	COUNT_CONTROL,
	// ktsn_guest
	COUNT_UNSURE,
	// ktsn_divert
	COUNT_GATED,
	COUNTS
};

// internal/node/capture reads this, too.
struct program {
	char comm[COMM_BYTES];
};

struct sent {
	__u64 captured;
	__u64 refused;
	// The process that sent the last frame, with its number on the node.
	__u32 pid;
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PROGRAMS);
	__type(key, struct program);
	__type(value, struct sent);
} programs SEC(".maps");

// The programs in the pod use only its mode.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ktsn_capture_state);
} state SEC(".maps");

// A map of its own, because the relay, which reads what pods send, writes it.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ktsn_capture_heartbeat);
} heartbeat SEC(".maps");

struct control {
	// Bytes of control frames that went to the bridge in this second.
	__u64 since_ns;
	__u64 bytes;
	// Untimed frames since the relay's last answer.
	__u64 queued;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} control SEC(".maps");

// Used in a guest.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ktsn_guest_clock);
} guest SEC(".maps");

// The largest bound, in nanoseconds, of all times that were written since the entry was cleared. A processor
// may overwrite another one's update; the next frame repeats it.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} widest SEC(".maps");

static __always_inline void count(__u32 what)
{
	__u64 *sum = bpf_map_lookup_elem(&counts, &what);

	if (sum)
		__sync_fetch_and_add(sum, 1);
}

static __always_inline const struct ktsn_capture_state *look_up_state(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&state, &only);
}

// ---- in the pod

// The bytes that are put before a frame. If the kernel keeps the frame's tag outside the packet, the tag is
// written after the record, because the kernel would otherwise insert it before the record.
struct prefix {
	__u8 addresses[ADDRESSES_BYTES];
	__be16 ethertype;
	__u8 version;
	__u8 what;
	__be64 time;
	__u8 frame_addresses[ADDRESSES_BYTES];
	__be16 tag_ethertype;
	__be16 tag;
};

_Static_assert(__builtin_offsetof(struct prefix, time) == KTSN_RECORD_AT_TIME,
	       "record.h has the same offset");
_Static_assert(__builtin_offsetof(struct prefix, frame_addresses) == KTSN_RECORD_BYTES, "the frame follows");

static __always_inline int sends_datagrams(struct __sk_buff *packet)
{
	struct bpf_sock *full = packet->sk ? bpf_sk_fullsock(packet->sk) : NULL;

	return full && (full->type == TYPE_DGRAM || full->type == TYPE_RAW || full->type == TYPE_PACKET);
}

static __always_inline int asked_for_txtime(const struct sock *sk)
{
	return BPF_CORE_READ(sk, __sk_common.skc_flags) >> bpf_core_enum_value(enum sock_flags, SOCK_TXTIME) &
	       1;
}

// In a soft interrupt the current process may be any process; if it is in another network namespace, it is
// certainly not the sender.
static __always_inline int may_have_sent(struct task_struct *task, const struct sock *sk)
{
	return BPF_CORE_READ(task, nsproxy, net_ns) == BPF_CORE_READ(sk, __sk_common.skc_net.net);
}

static __always_inline void count_program(const struct sock *sk, int refused)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct program key = {};
	struct sent first = {}, *entry;

	if (!may_have_sent(task, sk))
		return;
	// Threads may have other names than their process.
	BPF_CORE_READ_INTO(&key.comm, task, group_leader, comm);
	bpf_map_update_elem(&programs, &key, &first, BPF_NOEXIST);
	entry = bpf_map_lookup_elem(&programs, &key);
	if (!entry)
		return; // the map is full
	if (refused)
		__sync_fetch_and_add(&entry->refused, 1);
	else
		__sync_fetch_and_add(&entry->captured, 1);
	entry->pid = BPF_CORE_READ(task, tgid);
}

// Returns the clock's number in a record; negative if the clock has none, or if the kernel does not have the
// field.
static __always_inline int record_clock(const struct sock *sk)
{
	if (!bpf_core_field_exists(sk->sk_clockid))
		return -1;
	switch (BPF_CORE_READ(sk, sk_clockid)) {
	case CLOCK_TAI:
		return KTSN_RECORD_TAI;
	case CLOCK_MONOTONIC:
		return KTSN_RECORD_MONOTONIC;
	case CLOCK_REALTIME:
		return KTSN_RECORD_REALTIME;
	}
	return -1;
}

static __always_inline int is_deadline(const struct sock *sk)
{
	return bpf_core_field_exists(sk->sk_txtime_deadline_mode) &&
	       BPF_CORE_READ_BITFIELD_PROBED(sk, sk_txtime_deadline_mode);
}

// Whether a packet has a second tag. When the kernel removes the tag outside the packet, it also takes the
// next one from the packet, and would look for it in the record.
static __always_inline int has_two_tags(struct __sk_buff *packet)
{
	return packet->vlan_present &&
	       (packet->protocol == bpf_htons(ETH_P_8021Q) || packet->protocol == bpf_htons(ETH_P_8021AD));
}

static __always_inline int prepend(struct __sk_buff *packet, struct prefix *prefix)
{
	__u32 tagged = packet->vlan_present;

	if (bpf_skb_load_bytes(packet, 0, prefix->addresses, ADDRESSES_BYTES))
		return -1;
	if (!tagged) {
		if (bpf_skb_change_head(packet, KTSN_RECORD_BYTES, 0))
			return -1;
		return bpf_skb_store_bytes(packet, 0, prefix, KTSN_RECORD_BYTES, 0);
	}
	__builtin_memcpy(prefix->frame_addresses, prefix->addresses, ADDRESSES_BYTES);
	prefix->tag_ethertype = packet->vlan_proto;
	prefix->tag = bpf_htons(packet->vlan_tci);
	// The tag moves into the frame: the bytes before the frame's own EtherType are written again.
	if (bpf_skb_change_head(packet, KTSN_RECORD_BYTES + VLAN_TAG_BYTES, 0) ||
	    bpf_skb_store_bytes(packet, 0, prefix, sizeof(*prefix), 0))
		return -1;
	return bpf_skb_vlan_pop(packet);
}

// A time on a clock, as in a record.
struct when {
	__u64 time;
	int clock;
};

// Updates `widest` with the bound of the time that is written now.
static __always_inline void widen(const struct ktsn_guest_clock *entry, __u64 now_ns)
{
	__u32 only = 0;
	__u64 *largest = bpf_map_lookup_elem(&widest, &only);
	__u64 bound_ns = entry->bound_ns;

	if (now_ns > entry->at_ns)
		bound_ns += (now_ns - entry->at_ns) * entry->drift_ppb / 1000000000 + 1;
	if (largest && bound_ns > *largest)
		*largest = bound_ns;
}

// Converts a time to the host's clock. Returns 0, or -1 if the host's time is not known well enough.
static __always_inline int to_host_time(struct when *when)
{
	__u32 only = 0;
	const struct ktsn_guest_clock *entry = bpf_map_lookup_elem(&guest, &only);
	__u64 now_ns = bpf_ktime_get_ns();

	if (!entry || now_ns >= entry->until_ns)
		return -1;
	widen(entry, now_ns);
	if (when->clock == KTSN_RECORD_TAI)
		when->time += entry->ahead_ns[KTSN_RECORD_TAI];
	else if (when->clock == KTSN_RECORD_MONOTONIC)
		when->time += entry->ahead_ns[KTSN_RECORD_MONOTONIC];
	else
		when->time += entry->ahead_ns[KTSN_RECORD_REALTIME];
	when->clock = KTSN_RECORD_TAI;
	return 0;
}

// Puts the record before a frame. Returns the count to increment: COUNT_CAPTURED, or the reason to refuse the
// frame.
static __always_inline enum count record(struct __sk_buff *packet, const struct sock *sk, int in_guest)
{
	const struct ktsn_capture_state *now = look_up_state();
	struct prefix prefix = {
		.ethertype = bpf_htons(KTSN_RECORD_ETHERTYPE),
		.version = KTSN_RECORD_VERSION,
	};
	struct when when = {.time = packet->tstamp, .clock = record_clock(sk)};

	if (!now || now->mode == KTSN_CAPTURE_NONE)
		return COUNT_MODE_NONE;
	if (when.clock < 0)
		return COUNT_CLOCK;
	if (has_two_tags(packet))
		return COUNT_TAGS;
	if (in_guest && to_host_time(&when))
		return COUNT_UNSURE;
	prefix.time = bpf_cpu_to_be64(when.time);
	prefix.what = (packet->priority & KTSN_RECORD_PRIORITY_MASK) | when.clock << KTSN_RECORD_CLOCK_SHIFT |
		      (is_deadline(sk) ? KTSN_RECORD_DEADLINE : 0);
	if (prepend(packet, &prefix))
		return COUNT_NO_ROOM;
	// Cleared so that no queueing discipline of the pod delays the packet.
	packet->tstamp = 0;
	return COUNT_CAPTURED;
}

// TC_ACT_UNSPEC leaves the packet to other filters of the interface.
static __always_inline int capture(struct __sk_buff *packet, int in_guest)
{
	const struct sock *sk;
	enum count what;

	if (!packet->tstamp || !sends_datagrams(packet))
		return TC_ACT_UNSPEC;
	// Not packet->sk, because the verifier allows only known fields there.
	sk = BPF_CORE_READ((struct sk_buff *)packet, sk);
	if (!asked_for_txtime(sk))
		return TC_ACT_UNSPEC;
	what = record(packet, sk, in_guest);
	count(what);
	count_program(sk, what != COUNT_CAPTURED);
	return what == COUNT_CAPTURED ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}

SEC("tc")
int ktsn_capture(struct __sk_buff *packet)
{
	return capture(packet, 0);
}

SEC("tc")
int ktsn_guest(struct __sk_buff *packet)
{
	return capture(packet, 1);
}

// ---- at the node's end

static __always_inline int has_record(struct __sk_buff *packet)
{
	__u8 version;

	// Here a tag is outside the packet, and the kernel would insert it before the record.
	return packet->protocol == bpf_htons(KTSN_RECORD_ETHERTYPE) && !packet->vlan_present &&
	       !bpf_skb_load_bytes(packet, KTSN_RECORD_AT_VERSION, &version, sizeof(version)) &&
	       version == KTSN_RECORD_VERSION;
}

// Checks that the device still exists: its number stays in the map after it was deleted.
static __always_inline int has_relay(struct __sk_buff *packet, const struct ktsn_capture_state *now)
{
	__u32 mtu = 0;

	return now->relay_ifindex && bpf_check_mtu(packet, now->relay_ifindex, &mtu, 0, 0) >= 0;
}

// The clock of this processor may be a little behind that of the relay's processor.
static __always_inline int relay_answers(void)
{
	__u32 only = 0;
	const struct ktsn_capture_heartbeat *last = bpf_map_lookup_elem(&heartbeat, &only);
	__u64 at_ns = last ? *(const volatile __u64 *)&last->at_ns : 0;
	__s64 age_ns = (__s64)(bpf_ktime_get_ns() - at_ns);

	return at_ns && age_ns <= KTSN_CAPTURE_HEARTBEAT_NS && age_ns >= -KTSN_CAPTURE_HEARTBEAT_NS;
}

// Whether the schedule sometimes closes the gate of this or a lower priority. Lower ones count, because a
// virtual machine chooses the priority itself, and only ktsnd knows its highest allowed priority.
static __always_inline int is_gated(__u8 priority)
{
	__u32 only = 0;
	const struct ktsn_capture_heartbeat *last = bpf_map_lookup_elem(&heartbeat, &only);

	return !last || (last->gated & ((2ULL << (priority & KTSN_RECORD_PRIORITY_MASK)) - 1));
}

// Two processors at once may queue one frame more.
static __always_inline int may_queue(void)
{
	__u32 only = 0;
	struct control *relay = bpf_map_lookup_elem(&control, &only);

	return relay && __sync_fetch_and_add(&relay->queued, 1) < MAX_QUEUED;
}

static __always_inline void queued_reset(void)
{
	__u32 only = 0;
	struct control *relay = bpf_map_lookup_elem(&control, &only);

	if (relay && relay->queued)
		relay->queued = 0;
}

// The reserved addresses 01:80:c2:00:00:00 to 0f are for the bridge itself, which never forwards such frames.
static __always_inline int is_for_the_bridge(const __u8 *address)
{
	return address[0] == 0x01 && address[1] == 0x80 && address[2] == 0xc2 && !address[3] && !address[4] &&
	       address[5] < 0x10;
}

static __always_inline int is_igmp(struct __sk_buff *packet)
{
	__u8 protocol;

	return !bpf_skb_load_bytes(packet, ETH_HLEN + IPV4_AT_PROTOCOL, &protocol, sizeof(protocol)) &&
	       protocol == IPPROTO_IGMP;
}

// Messages of multicast listener discovery always follow one option, the router alert.
static __always_inline int is_mld(struct __sk_buff *packet)
{
	__u8 next, option[2], type;

	if (bpf_skb_load_bytes(packet, ETH_HLEN + IPV6_AT_NEXT_HEADER, &next, sizeof(next)) ||
	    next != IPPROTO_HOPOPTS ||
	    bpf_skb_load_bytes(packet, ETH_HLEN + IPV6_BYTES, option, sizeof(option)) ||
	    option[0] != IPPROTO_ICMPV6 || option[1] ||
	    bpf_skb_load_bytes(packet, ETH_HLEN + IPV6_BYTES + OPTION_BYTES, &type, sizeof(type)))
		return 0;
	return (type >= MLD_QUERY && type <= MLD_DONE) || type == MLD2_REPORT;
}

// ktsnd learns from the bridge which pods belong to a multicast group, and the bridge from their reports.
static __always_inline int is_control(struct __sk_buff *packet)
{
	__u8 destination[ETH_ALEN];

	if (bpf_skb_load_bytes(packet, 0, destination, sizeof(destination)) || !(destination[0] & 1))
		return 0;
	return is_for_the_bridge(destination) ||
	       (packet->protocol == bpf_htons(ETH_P_IP) && is_igmp(packet)) ||
	       (packet->protocol == bpf_htons(ETH_P_IPV6) && is_mld(packet));
}

// Control frames are limited, because they pass without a gate and without a check of their addresses. Two
// processors at once may pass one frame more.
static __always_inline int may_pass_as_control(struct __sk_buff *packet)
{
	__u64 bytes = packet->len < LEAST_CONTROL_BYTES ? LEAST_CONTROL_BYTES : packet->len;
	__u32 only = 0;
	struct control *passed = bpf_map_lookup_elem(&control, &only);
	__u64 now_ns = bpf_ktime_get_ns();

	if (!passed)
		return 0;
	if (now_ns - passed->since_ns >= SECOND_NS) {
		passed->since_ns = now_ns;
		passed->bytes = 0;
	}
	return __sync_fetch_and_add(&passed->bytes, bytes) + bytes <= MAX_CONTROL_BYTES;
}

// The kernel divides a frame into segments at the pod's interface, after ktsn_capture, so that each segment
// has the record (tsn-cni configures that). Here it could not, because it does not know the protocol after a
// record.
static __always_inline int divert_timed(struct __sk_buff *packet, const struct ktsn_capture_state *now)
{
	if (packet->gso_size) {
		count(COUNT_SEGMENTS);
		return TC_ACT_SHOT;
	}
	if (!has_relay(packet, now)) {
		count(COUNT_NO_RELAY);
		return TC_ACT_SHOT;
	}
	count(COUNT_TIMED);
	return bpf_redirect(now->relay_ifindex, 0);
}

// Returns 0 for a frame that cannot have a record, for example because the kernel could not divide it into
// segments after a record. In a packet the queues of a tap are counted from 1.
static __always_inline __u8 priority_of(struct __sk_buff *packet, const struct ktsn_capture_state *now)
{
	if (packet->gso_size || has_two_tags(packet))
		return 0;
	if (now->class_by == KTSN_CAPTURE_CLASS_PCP && packet->vlan_present)
		return packet->vlan_tci >> VLAN_PCP_SHIFT & KTSN_RECORD_PRIORITY_MASK;
	if (now->class_by == KTSN_CAPTURE_CLASS_QUEUE && packet->queue_mapping)
		return packet->queue_mapping - 1 & KTSN_RECORD_PRIORITY_MASK;
	return 0;
}

// Returns -1 when there is no room.
static __always_inline int prepend_class(struct __sk_buff *packet, __u8 priority)
{
	struct prefix prefix = {
		.ethertype = bpf_htons(KTSN_RECORD_ETHERTYPE),
		.version = KTSN_RECORD_VERSION,
		.what = priority | KTSN_RECORD_UNTIMED << KTSN_RECORD_CLOCK_SHIFT,
	};

	return priority ? prepend(packet, &prefix) : 0;
}

// A frame of a gated priority must never bypass its gate through the bridge. If the relay does not answer,
// the frame waits in the relay's device, and the relay drops it if ktsnd is not running. If there is no
// relay, or if too many frames wait, it is dropped here.
static __always_inline int divert_untimed(struct __sk_buff *packet, const struct ktsn_capture_state *now)
{
	__u8 priority = priority_of(packet, now);
	int gated = is_gated(priority), answers = relay_answers();

	if (!has_relay(packet, now) || !(answers || (gated && may_queue()))) {
		count(gated ? COUNT_GATED : COUNT_PASSED);
		return gated ? TC_ACT_SHOT : TC_ACT_UNSPEC;
	}
	if (answers)
		queued_reset();
	if (prepend_class(packet, priority)) {
		count(COUNT_NO_ROOM);
		return TC_ACT_SHOT;
	}
	count(COUNT_UNTIMED);
	return bpf_redirect(now->relay_ifindex, 0);
}

SEC("tc")
int ktsn_divert(struct __sk_buff *packet)
{
	const struct ktsn_capture_state *now = look_up_state();

	if (!now)
		return TC_ACT_UNSPEC;
	if (has_record(packet))
		return divert_timed(packet, now);
	if (now->mode != KTSN_CAPTURE_ALL)
		return TC_ACT_UNSPEC;
	if (is_control(packet) && may_pass_as_control(packet)) {
		count(COUNT_CONTROL);
		return TC_ACT_UNSPEC;
	}
	return divert_untimed(packet, now);
}

// Reading the kernel's memory is for programs under its licence.
char LICENSE[] SEC("license") = "Dual BSD/GPL";
