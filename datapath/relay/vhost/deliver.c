/* SPDX-License-Identifier: Apache-2.0 */
#include "deliver.h"

#include "captured_frame.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <string.h>
#include <sys/socket.h>

#include <rte_mbuf.h>
#include <rte_vhost.h>

enum {
	BURST = 32,
	TAG_BYTES = 4,
	/* For frames that arrive while the relay does something else. */
	BUFFER_BYTES = 4 << 20,
};

/* The parts of a received message except the frame. */
struct received {
	struct virtio_net_hdr header;
	struct sockaddr_ll from;
	struct iovec parts[2];
	union {
		char bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
		struct cmsghdr align;
	} control;
};

/* Used by the relay's only thread, and too large for its stack. */
static struct received received[BURST];
static struct mmsghdr messages[BURST];
static struct rte_mbuf *buffers[BURST];

int deliver_prepare(int link_fd)
{
	const int enabled = 1, bytes = BUFFER_BYTES;

	if (setsockopt(link_fd, SOL_PACKET, PACKET_VNET_HDR, &enabled, sizeof(enabled)) ||
	    setsockopt(link_fd, SOL_PACKET, PACKET_AUXDATA, &enabled, sizeof(enabled)) ||
	    setsockopt(link_fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &enabled, sizeof(enabled)))
		return -errno;
	/* The host may limit it. */
	(void)setsockopt(link_fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	return 0;
}

void deliver_init(struct deliver *deliver, struct rte_mempool *pool, int link_fd)
{
	*deliver = (struct deliver){.pool = pool, .link_fd = link_fd};
}

static void message_prepare(int i)
{
	struct received *into = &received[i];

	into->parts[0] = (struct iovec){.iov_base = &into->header, .iov_len = sizeof(into->header)};
	into->parts[1] = (struct iovec){.iov_base = rte_pktmbuf_mtod(buffers[i], void *),
					.iov_len = rte_pktmbuf_tailroom(buffers[i])};
	messages[i].msg_hdr = (struct msghdr){
		.msg_name = &into->from,
		.msg_namelen = sizeof(into->from),
		.msg_iov = into->parts,
		.msg_iovlen = 2,
		.msg_control = &into->control,
		.msg_controllen = sizeof(into->control),
	};
}

static const struct tpacket_auxdata *auxdata(struct msghdr *message)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);

	if (!cmsg || cmsg->cmsg_level != SOL_PACKET || cmsg->cmsg_type != PACKET_AUXDATA)
		return NULL;
	return (const struct tpacket_auxdata *)CMSG_DATA(cmsg);
}

/* Inserts the outer tag, which the kernel removes from the frame. */
static bool tag_put_back(struct rte_mbuf *mbuf, const struct tpacket_auxdata *auxiliary)
{
	bool has_protocol = auxiliary->tp_status & TP_STATUS_VLAN_TPID_VALID;
	uint16_t tag[2] = {htons(has_protocol ? auxiliary->tp_vlan_tpid : ETHERTYPE_VLAN),
			   htons(auxiliary->tp_vlan_tci)};
	uint8_t *start = (uint8_t *)rte_pktmbuf_prepend(mbuf, TAG_BYTES);

	if (!start)
		return false;
	memmove(start, start + TAG_BYTES, FRAME_ADDRESSES_BYTES);
	memcpy(start + FRAME_ADDRESSES_BYTES, tag, sizeof(tag));
	return true;
}

/* Completes a frame. Returns the queue pair, or -1 if the guest cannot get it. */
static int frame_complete(int i, const struct guest *guest)
{
	struct msghdr *message = &messages[i].msg_hdr;
	const struct tpacket_auxdata *auxiliary = auxdata(message);
	uint32_t bytes = messages[i].msg_len - (uint32_t)sizeof(struct virtio_net_hdr);
	int pair = 0;

	if (messages[i].msg_len < sizeof(struct virtio_net_hdr) + FRAME_HEADER_BYTES ||
	    (message->msg_flags & MSG_TRUNC) ||
	    offload_complete(&received[i].header, rte_pktmbuf_mtod(buffers[i], uint8_t *), bytes))
		return -1;
	buffers[i]->data_len = (uint16_t)bytes;
	buffers[i]->pkt_len = bytes;
	if (!auxiliary || !(auxiliary->tp_status & TP_STATUS_VLAN_VALID))
		return 0;
	pair = auxiliary->tp_vlan_tci >> 13;
	if (!tag_put_back(buffers[i], auxiliary))
		return -1;
	return guest->kick_fd[pair] >= 0 ? pair : 0;
}

/* Returns whether the guest got the frame. */
static bool frame_deliver(int i, const struct guest *guest)
{
	int pair = frame_complete(i, guest);

	return pair >= 0 &&
	       rte_vhost_enqueue_burst(guest->vid, (uint16_t)guest_ring_to(pair), &buffers[i], 1) == 1;
}

void deliver_serve(struct deliver *deliver, const struct guest *guest, struct relay_counters *counters)
{
	int count;

	if (rte_pktmbuf_alloc_bulk(deliver->pool, buffers, BURST))
		return;
	for (int i = 0; i < BURST; i++)
		message_prepare(i);
	count = recvmmsg(deliver->link_fd, messages, BURST, MSG_DONTWAIT, NULL);
	for (int i = 0; i < count; i++) {
		bool delivered;

		/* A frame for others that a bridge floods. */
		if (received[i].from.sll_pkttype == PACKET_OTHERHOST)
			continue;
		delivered = guest->vid >= 0 && frame_deliver(i, guest);
		relay_count(&counters->back_read, 1);
		relay_count(delivered ? &counters->back_handed : &counters->back_dropped, 1);
	}
	rte_pktmbuf_free_bulk(buffers, BURST);
}
