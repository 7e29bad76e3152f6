/* SPDX-License-Identifier: Apache-2.0 */
#include "outgoing.h"

#include "flow_table.h"
#include "message.h"
#include "way.h"

#include <netinet/in.h>
#include <time.h>

/* Flags that make no difference to a datagram that waits in a ring, and MSG_MORE (cork.c), which packet sockets do not know.
 * The others would change how it is sent (MSG_OOB, which the kernel refuses as well), and are refused. */
enum {
	FLAGS_UNDERSTOOD = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CONFIRM | MSG_DONTROUTE | MSG_EOR | MSG_MORE,
};

/* When the call began, for a trace (docs/ring-layout.md); nothing is asked of the clock without one. */
static int64_t called_tai_ns(const struct session *session)
{
	struct timespec now;

	if (!session || !ktsn_ring_traced(&session->ring))
		return 0;
	(void)clock_gettime(CLOCK_TAI, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Packet sockets know nothing of UDP. */
static int segments_read(const struct flow *flow, const struct msghdr *message, uint32_t *segment_bytes)
{
	if (flow->kind.domain == AF_PACKET)
		return 0;
	*segment_bytes = atomic_load_explicit(&flow->options.segment_bytes, memory_order_relaxed);
	return segment_read(message, segment_bytes);
}

static void way_take(struct outgoing *outgoing, const struct flow *flow, const struct way *way)
{
	uint32_t capacity_bytes;

	outgoing->route = way->destination.route;
	outgoing->session = way->session;
	if (outgoing->route == KTSN_APP_ROUTE_KERNEL)
		return;
	capacity_bytes = way->session->ring.payload_capacity_bytes;
	outgoing->described.flow = flow->number;
	outgoing->described.destination = way->destination.number;
	outgoing->datagram_max_bytes = way->destination.payload_max_bytes < capacity_bytes
					       ? way->destination.payload_max_bytes
					       : capacity_bytes;
}

/* Of an IPv6 socket that is connected only its peer tells. */
static bool to_ipv4(const struct outgoing *outgoing, const struct flow *flow, int fd)
{
	struct sockaddr_in6 peer = {.sin6_family = AF_UNSPEC};
	socklen_t bytes = sizeof(peer);

	if (outgoing->aimed && outgoing->key.family)
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

/* What the kernel does and a slot cannot hold; and what it refuses. */
static int allowed(const struct outgoing *outgoing, const struct flow *flow, int fd)
{
	if (outgoing->route == KTSN_APP_ROUTE_KERNEL)
		return 0;
	if (atomic_load_explicit(&flow->options.more_headers, memory_order_relaxed))
		return -EOPNOTSUPP;
	return outgoing->segment_bytes && unchecked(outgoing, flow, fd) ? -EINVAL : 0;
}

long outgoing_open(struct outgoing *outgoing, struct flow *flow, int fd, const struct msghdr *message,
		   int flags)
{
	struct way way = {.session = session_existing()};
	int64_t txtime_ns;
	int timed = message_txtime(message, &txtime_ns), aimed;
	long err;

	if (timed <= 0)
		return timed < 0 ? timed : SEND_NOT_TIMED;
	if (flags & ~FLAGS_UNDERSTOOD)
		return -EOPNOTSUPP;
	outgoing->described = (struct ktsn_ring_message){.txtime_ns = txtime_ns,
							 .called_tai_ns = called_tai_ns(way.session)};
	outgoing->segment_bytes = outgoing->bytes = outgoing->slots.count = 0;
	err = segments_read(flow, message, &outgoing->segment_bytes);
	if (err)
		return err;
	aimed = aim_read(message, flow->kind, fd, &outgoing->key);
	if (aimed < 0)
		return aimed;
	outgoing->aimed = aimed > 0;
	err = way_to(flow, fd, outgoing->aimed ? &outgoing->key : NULL, flags, &way);
	if (!err)
		way_take(outgoing, flow, &way);
	return err ? err : allowed(outgoing, flow, fd);
}

long outgoing_find_again(struct outgoing *outgoing, struct flow *flow, int fd)
{
	struct way way = {.session = outgoing->session};
	long err = way_to(flow, fd, outgoing->aimed ? &outgoing->key : NULL, MSG_DONTWAIT, &way);

	if (!err && (way.session != outgoing->session || way.destination.route != KTSN_APP_ROUTE_TSN))
		err = -ENETDOWN;
	if (!err)
		way_take(outgoing, flow, &way);
	return err;
}

/* What begins the message of a SOCK_RAW socket is in its destination. */
static size_t header_bytes(const struct flow *flow)
{
	return flow->kind.domain == AF_PACKET && flow->kind.raw ? AIM_ETHERNET_HEADER_BYTES : 0;
}

/* The bytes behind the first skip_bytes of the message go behind those that are filled. */
static void fill(struct outgoing *outgoing, const struct msghdr *message, size_t skip_bytes, uint32_t bytes)
{
	struct ktsn_ring_producer *ring = &outgoing->session->ring;
	uint32_t segment_bytes =
		outgoing->slots.count > 1 ? outgoing->segment_bytes : outgoing->datagram_max_bytes;

	for (uint32_t left = bytes, piece; left > 0; left -= piece) {
		uint32_t slot = outgoing->bytes / segment_bytes, at = outgoing->bytes % segment_bytes;

		piece = left < segment_bytes - at ? left : segment_bytes - at;
		message_payload_copy_behind(message, skip_bytes + bytes - left,
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
	/* aim_read() has seen that the header is there; another thread may have changed the iovec since. */
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

	waiting_space_found(flow);
	for (uint32_t i = 0; i < outgoing->slots.count; i++) {
		described.payload_bytes = datagram_bytes(outgoing, i);
		atomic_fetch_add_explicit(&flow->sent_bytes, ktsn_ring_charge_bytes(described.payload_bytes),
					  memory_order_relaxed);
		ktsn_ring_publish(&session->ring, outgoing->slots.numbers[i], &described);
	}
	outgoing->slots.count = 0;
	bell = ktsn_ring_doorbell_due(&session->ring, flow->clock, described.txtime_ns);
	/* Before the bell is rung: its descriptor may have been closed behind our back. */
	session_check(session, flow->clock, bell);
	if (bell)
		session_doorbell_ring(session);
}
