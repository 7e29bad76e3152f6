/* SPDX-License-Identifier: Apache-2.0 */
#include "outgoing.h"

#include "clock.h"
#include "kernel.h"
#include "liveness.h"
#include "message.h"
#include "next.h"
#include "route.h"
#include "segment.h"
#include "slots.h"
#include "space_notifier.h"

#include <errno.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>

/* Flags that make no difference to a datagram in a ring, and MSG_MORE (send.h), which packet sockets ignore.
 * Others would change how the datagram is sent, and are refused; MSG_OOB by the kernel as well. */
enum {
	FLAGS_UNDERSTOOD = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CONFIRM | MSG_DONTROUTE | MSG_EOR | MSG_MORE,
};

/* When the call began, for a trace (docs/internals/ring-layout.md). Without a trace the clock is not read. */
static int64_t called_tai_ns(const struct session *session)
{
	return session && ktsn_ring_traced(&session->ring) ? clock_now_ns(CLOCK_TAI) : 0;
}

static int segments_read(const struct flow *flow, const struct msghdr *message, uint32_t *segment_bytes)
{
	if (flow->kind.domain == AF_PACKET)
		return 0;
	*segment_bytes = atomic_load_explicit(&flow->options.segment_bytes, memory_order_relaxed);
	return segment_read(message, segment_bytes);
}

static void route_take(struct outgoing *outgoing, const struct flow *flow, const struct route *route)
{
	uint32_t capacity_bytes;

	outgoing->route = route->destination.route;
	outgoing->session = route->session;
	if (outgoing->route == KTSN_APP_ROUTE_KERNEL)
		return;
	outgoing->network_bit = route->destination.network_bit;
	capacity_bytes = route->session->ring.payload_capacity_bytes;
	outgoing->described.flow = flow->number;
	outgoing->described.destination = route->destination.number;
	outgoing->datagram_max_bytes = route->destination.payload_max_bytes < capacity_bytes
					       ? route->destination.payload_max_bytes
					       : capacity_bytes;
}

/* A connected IPv6 socket may be connected to IPv4. */
static bool to_ipv4(const struct outgoing *outgoing, const struct flow *flow, int fd)
{
	struct sockaddr_in6 peer = {.sin6_family = AF_UNSPEC};
	socklen_t bytes = sizeof(peer);

	if (outgoing->has_key && outgoing->key.family)
		return outgoing->key.family == AF_INET;
	if (flow->kind.domain == AF_INET)
		return true;
	return kernel_call(SYS_getpeername, fd, &peer, &bytes) == 0 && IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr);
}

static bool unchecked(const struct outgoing *outgoing, const struct flow *flow, int fd)
{
	bool ipv4 = atomic_load_explicit(&flow->options.unchecked, memory_order_relaxed);
	bool ipv6 = atomic_load_explicit(&flow->options.unchecked6, memory_order_relaxed);

	return (ipv4 || ipv6) && (to_ipv4(outgoing, flow, fd) ? ipv4 : ipv6);
}

/* Refuses what the kernel would do and a slot cannot hold, and what the kernel refuses. */
static int allowed(const struct outgoing *outgoing, const struct flow *flow, int fd)
{
	if (outgoing->route == KTSN_APP_ROUTE_KERNEL)
		return 0;
	if (atomic_load_explicit(&flow->options.more_headers, memory_order_relaxed))
		return -EOPNOTSUPP;
	return outgoing->segment_bytes && unchecked(outgoing, flow, fd) ? -EINVAL : 0;
}

/* The node's clock is lost to the network, which takes no messages then (docs/reference/so-txtime.md). While
 * nothing is sent, this is where a ktsnd that has ended is noticed. */
static int refused(const struct outgoing *outgoing, const struct flow *flow)
{
	if (!ktsn_ring_refuses(&outgoing->session->ring, outgoing->network_bit))
		return 0;
	session_check(outgoing->session, flow->clock, false);
	return -ENETDOWN;
}

/* The time stamps that the socket or the message asks for. There are none of the hardware. */
static void stamps_read(struct outgoing *outgoing, const struct flow *flow, const struct msghdr *message)
{
	uint32_t flags = atomic_load_explicit(&flow->options.stamping, memory_order_relaxed);
	uint32_t number = 0;
	uint8_t stamps = 0;

	outgoing->stamps_numbered = false;
	if (!(flags & SOF_TIMESTAMPING_SOFTWARE))
		return;
	outgoing->stamps_numbered = !message_stamping(message, &flags, &number);
	if (flags & SOF_TIMESTAMPING_TX_SCHED)
		stamps |= KTSN_STAMP_SCHED;
	if (flags & SOF_TIMESTAMPING_TX_SOFTWARE)
		stamps |= KTSN_STAMP_SOFTWARE;
	if (stamps && flags & SOF_TIMESTAMPING_OPT_TSONLY)
		stamps |= KTSN_STAMP_ONLY;
	outgoing->stamps_numbered &= stamps && flags & SOF_TIMESTAMPING_OPT_ID;
	if (stamps & KTSN_STAMP_SCHED && !outgoing->described.called_tai_ns)
		outgoing->described.called_tai_ns = clock_now_ns(CLOCK_TAI);
	outgoing->described.stamps = stamps;
	outgoing->described.stamp_number = number;
}

long outgoing_open(struct outgoing *outgoing, struct flow *flow, int fd, const struct msghdr *message,
		   int flags)
{
	struct route route = {.session = session_existing()};
	int64_t txtime_ns;
	int timed = message_txtime(message, &txtime_ns), has_key;
	long err;

	if (timed <= 0)
		return timed < 0 ? timed : SEND_NOT_TIMED;
	if (flags & ~FLAGS_UNDERSTOOD)
		return -EOPNOTSUPP;
	outgoing->described = (struct ktsn_ring_message){.txtime_ns = txtime_ns,
							 .called_tai_ns = called_tai_ns(route.session)};
	outgoing->segment_bytes = outgoing->bytes = outgoing->slots.count = 0;
	err = segments_read(flow, message, &outgoing->segment_bytes);
	if (err)
		return err;
	has_key = message_destination_read(message, flow->kind, fd, &outgoing->key);
	if (has_key < 0)
		return has_key;
	outgoing->has_key = has_key > 0;
	stamps_read(outgoing, flow, message);
	err = route_find(flow, fd, outgoing->has_key ? &outgoing->key : NULL, flags, &route);
	if (!err)
		route_take(outgoing, flow, &route);
	return err ? err : allowed(outgoing, flow, fd);
}

long outgoing_route_again(struct outgoing *outgoing, struct flow *flow, int fd)
{
	struct route route = {.session = outgoing->session};
	long err = route_find(flow, fd, outgoing->has_key ? &outgoing->key : NULL, MSG_DONTWAIT, &route);

	if (!err && (route.session != outgoing->session || route.destination.route != KTSN_APP_ROUTE_TSN))
		err = -ENETDOWN;
	if (err)
		return err;
	route_take(outgoing, flow, &route);
	/* An MTU may have been lowered since the message was begun. */
	if ((outgoing->slots.count > 1 ? outgoing->segment_bytes : outgoing->bytes) >
	    outgoing->datagram_max_bytes)
		return -EMSGSIZE;
	return refused(outgoing, flow);
}

/* The Ethernet header of a SOCK_RAW message is part of the key. */
static size_t header_bytes(const struct flow *flow)
{
	return flow->kind.domain == AF_PACKET && flow->kind.raw ? ETHERNET_HEADER_BYTES : 0;
}

/* Copies `bytes` of the message, after its first skip_bytes, to the end of the filled slots. */
static void fill(struct outgoing *outgoing, const struct msghdr *message, size_t skip_bytes, uint32_t bytes)
{
	struct ktsn_ring_producer *ring = &outgoing->session->ring;
	uint32_t segment_bytes =
		outgoing->slots.count > 1 ? outgoing->segment_bytes : outgoing->datagram_max_bytes;

	for (uint32_t left = bytes, piece; left > 0; left -= piece) {
		uint32_t slot = outgoing->bytes / segment_bytes, at = outgoing->bytes % segment_bytes;

		piece = left < segment_bytes - at ? left : segment_bytes - at;
		message_payload_copy_after(message, skip_bytes + bytes - left,
					   ktsn_ring_payload(ring, outgoing->slots.numbers[slot]) + at,
					   piece);
		outgoing->bytes += piece;
	}
}

long outgoing_append(struct outgoing *outgoing, struct flow *flow, const struct msghdr *message)
{
	size_t skip_bytes = header_bytes(flow);
	int message_bytes = message_payload_bytes(message), bytes, err;
	uint32_t count;

	if (message_bytes < 0)
		return message_bytes;
	err = refused(outgoing, flow);
	if (err)
		return err;
	/* message_destination_read() has seen the header; another thread may have changed the iovec since. */
	bytes = (size_t)message_bytes < skip_bytes ? 0 : message_bytes - (int)skip_bytes;
	err = segment_count(outgoing->bytes + (size_t)bytes, outgoing->segment_bytes,
			    outgoing->datagram_max_bytes, &count);
	if (!err)
		err = slots_claim(outgoing->session, flow, count, &outgoing->slots);
	if (!err)
		fill(outgoing, message, skip_bytes, (uint32_t)bytes);
	return err ? err : message_bytes;
}

static uint32_t datagram_bytes(const struct outgoing *outgoing, uint32_t number)
{
	bool last = number + 1 == outgoing->slots.count;

	return last ? outgoing->bytes - number * outgoing->segment_bytes : outgoing->segment_bytes;
}

void outgoing_publish(struct outgoing *outgoing, struct flow *flow)
{
	struct session *session = outgoing->session;
	struct ktsn_ring_message described = outgoing->described;
	bool bell;

	space_found(&flow->poll_state);
	if (outgoing->stamps_numbered)
		described.stamp_number =
			atomic_fetch_add_explicit(&flow->options.stamp_next, 1, memory_order_relaxed);
	for (uint32_t i = 0; i < outgoing->slots.count; i++) {
		described.payload_bytes = datagram_bytes(outgoing, i);
		atomic_fetch_add_explicit(&flow->sent_bytes, ktsn_ring_charge_bytes(described.payload_bytes),
					  memory_order_relaxed);
		ktsn_ring_publish(&session->ring, outgoing->slots.numbers[i], &described);
		described.stamps = 0; /* of a message that was cut the first datagram has them */
	}
	outgoing->slots.count = 0;
	bell = ktsn_ring_doorbell_due(&session->ring, flow->clock, described.txtime_ns);
	/* Before the write: the application may have closed the doorbell, which this check finds out. */
	session_check(session, flow->clock, bell);
	if (bell)
		session_doorbell_ring(session);
}

static long without_txtime_send(int fd, const struct msghdr *message, int flags)
{
	uint8_t control[512] __attribute__((aligned(sizeof(size_t))));
	struct msghdr untimed = *message;
	int bytes = message_control_without_txtime(message, control, sizeof(control));
	ssize_t sent;

	if (bytes < 0)
		return bytes;
	untimed.msg_control = bytes ? control : NULL;
	untimed.msg_controllen = (size_t)bytes;
	untimed.msg_iovlen = (uint32_t)message->msg_iovlen;
	sent = next_sendmsg(fd, &untimed, flags);
	return sent < 0 ? -errno : sent;
}

long kernel_path_send(struct session *session, struct flow *flow, int fd, const struct msghdr *message,
		      int flags)
{
	ssize_t sent;

	atomic_fetch_add_explicit(&session->ring.header->kernel_path, 1, memory_order_relaxed);
	/* Without an endpoint, a queueing discipline of the namespace may use the transmit time. */
	if (!flow->kernel_knows || !atomic_load_explicit(&flow->without_endpoint, memory_order_relaxed))
		return without_txtime_send(fd, message, flags);
	sent = next_sendmsg(fd, message, flags);
	return sent < 0 ? -errno : sent;
}
