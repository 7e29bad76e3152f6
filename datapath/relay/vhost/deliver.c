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
	/* As many frames as come while the relay does something else. */
	BUFFER_BYTES = 4 << 20,
};

/* What is received, and about it. */
struct received {
	struct virtio_net_hdr header;
	struct sockaddr_ll from;
	union {
		char bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
		struct cmsghdr align;
	} control;
	struct iovec parts[2];
};

/* Of the relay's only thread; too much for its stack. */
static struct received received[BURST];
static struct mmsghdr messages[BURST];
static struct rte_mbuf *buffers[BURST];

int deliver_prepare(int link_fd)
{
	const int one = 1, bytes = BUFFER_BYTES;

	if (setsockopt(link_fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) ||
	    setsockopt(link_fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one)) ||
	    setsockopt(link_fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)))
		return -errno;
	/* As much as the host allows. */
	(void)setsockopt(link_fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	return 0;
}

void deliver_init(struct deliver *deliver, struct rte_mempool *pool, int link_fd)
{
	*deliver = (struct deliver){.pool = pool, .link_fd = link_fd};
}

static void message_prepare(int i)
{
	struct received *one = &received[i];

	one->parts[0] = (struct iovec){.iov_base = &one->header, .iov_len = sizeof(one->header)};
	one->parts[1] = (struct iovec){.iov_base = rte_pktmbuf_mtod(buffers[i], void *),
				       .iov_len = rte_pktmbuf_tailroom(buffers[i])};
	messages[i].msg_hdr = (struct msghdr){
		.msg_name = &one->from,
		.msg_namelen = sizeof(one->from),
		.msg_iov = one->parts,
		.msg_iovlen = 2,
		.msg_control = &one->control,
		.msg_controllen = sizeof(one->control),
	};
}

static const struct tpacket_auxdata *auxdata(struct msghdr *message)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);

	if (!cmsg || cmsg->cmsg_level != SOL_PACKET || cmsg->cmsg_type != PACKET_AUXDATA)
		return NULL;
	return (const struct tpacket_auxdata *)CMSG_DATA(cmsg);
}

/* The kernel keeps the outer tag beside the frame. */
static bool tag_put_back(struct rte_mbuf *mbuf, const struct tpacket_auxdata *about)
{
	bool has_protocol = about->tp_status & TP_STATUS_VLAN_TPID_VALID;
	uint16_t tag[2] = {htons(has_protocol ? about->tp_vlan_tpid : ETHERTYPE_VLAN),
			   htons(about->tp_vlan_tci)};
	uint8_t *start = (uint8_t *)rte_pktmbuf_prepend(mbuf, TAG_BYTES);

	if (!start)
		return false;
	memmove(start, start + TAG_BYTES, FRAME_ADDRESSES_BYTES);
	memcpy(start + FRAME_ADDRESSES_BYTES, tag, sizeof(tag));
	return true;
}

/* The pair for it, or -1: it is none for the guest. */
static int frame_complete(int i, const struct guest *guest)
{
	struct msghdr *message = &messages[i].msg_hdr;
	const struct tpacket_auxdata *about = auxdata(message);
	uint32_t bytes = messages[i].msg_len - (uint32_t)sizeof(struct virtio_net_hdr);
	int pair = 0;

	if (messages[i].msg_len < sizeof(struct virtio_net_hdr) + FRAME_HEADER_BYTES ||
	    (message->msg_flags & MSG_TRUNC) ||
	    offload_complete(&received[i].header, rte_pktmbuf_mtod(buffers[i], uint8_t *), bytes))
		return -1;
	buffers[i]->data_len = (uint16_t)bytes;
	buffers[i]->pkt_len = bytes;
	if (!about || !(about->tp_status & TP_STATUS_VLAN_VALID))
		return 0;
	pair = about->tp_vlan_tci >> 13;
	if (!tag_put_back(buffers[i], about))
		return -1;
	return guest->kick_fd[pair] >= 0 ? pair : 0;
}

/* Whether it was given to the guest. */
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
		bool given;

		/* What a bridge floods, for others. */
		if (received[i].from.sll_pkttype == PACKET_OTHERHOST)
			continue;
		given = guest->vid >= 0 && frame_deliver(i, guest);
		relay_count(&counters->back_read, 1);
		relay_count(given ? &counters->back_handed : &counters->back_dropped, 1);
	}
	rte_pktmbuf_free_bulk(buffers, BURST);
}
