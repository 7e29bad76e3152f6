/* SPDX-License-Identifier: Apache-2.0 */
#include "send.h"

#include "clock.h"
#include "frame.h"
#include "requests.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static uint32_t flow_index(const struct captured_frame *frame)
{
	if (!frame->timed)
		return KTSN_CLOCK_TAI;
	return (uint32_t)frame->clock + (frame->deadline ? KTSN_CLOCKS : 0);
}

static enum send_outcome outcome_of(int err, enum relay_drop *reason)
{
	*reason = err == -EPERM    ? RELAY_DROP_SOURCE
		  : err == -EDQUOT ? RELAY_DROP_DESTINATIONS
				   : RELAY_DROP_NO_DESTINATION;
	return err == -EINPROGRESS ? SEND_NO_DAEMON : SEND_REFUSED;
}

/* payload_max_bytes does not include a tag, as the MTU of a link does not. */
static bool fits(const struct session *session, const struct captured_frame *frame,
		 const struct destination *destination)
{
	uint32_t tag_bytes = captured_frame_is_tagged(frame) ? KTSN_VLAN_TAG_BYTES : 0;

	return frame->payload_bytes <= destination->payload_max_bytes + tag_bytes &&
	       frame->payload_bytes <= session->ring.payload_capacity_bytes;
}

static int destination_find(struct session *session, const struct captured_frame *frame, uint32_t index,
			    int64_t now_ns, struct destination **destination)
{
	struct destination_key key = {.flow = index};
	int err;

	memcpy(key.addresses, frame->addresses, sizeof(key.addresses));
	err = request_destination(session, &key, now_ns, destination);
	if (!err && !fits(session, frame, *destination))
		err = request_destination_again(session, destination, now_ns);
	return err;
}

/* A frame without a transmit time gets the current time. */
static int64_t txtime_ns(const struct captured_frame *frame)
{
	return frame->timed ? frame->txtime_ns : clock_now_ns(CLOCK_TAI);
}

static void slot_publish(struct session *session, const struct captured_frame *frame, uint32_t slot,
			 uint32_t index, uint32_t destination)
{
	const struct ktsn_ring_message message = {
		.flow = session->flows[index].number,
		.destination = destination,
		.payload_bytes = frame->payload_bytes,
		.txtime_ns = txtime_ns(frame),
		.called_tai_ns = ktsn_ring_traced(&session->ring) ? clock_now_ns(CLOCK_TAI) : 0,
		.ethertype_be = frame->ethertype_be,
		.priority = frame->priority,
	};

	memcpy(ktsn_ring_payload(&session->ring, slot), frame->payload, frame->payload_bytes);
	ktsn_ring_publish(&session->ring, slot, &message);
	session->doorbell_due |= ktsn_ring_doorbell_due(
		&session->ring, (enum ktsn_clock)(index % KTSN_CLOCKS), message.txtime_ns);
}

enum send_outcome frame_send(struct session *session, const struct captured_frame *frame, int64_t now_ns,
			     enum relay_drop *reason)
{
	uint32_t index = flow_index(frame), slot;
	struct destination *destination;
	int err;

	if (!session->ring.header)
		return SEND_NO_DAEMON;
	err = request_flow(session, index, now_ns);
	if (err) {
		*reason = RELAY_DROP_NO_FLOW;
		return err == -EINPROGRESS ? SEND_NO_DAEMON : SEND_REFUSED;
	}
	err = destination_find(session, frame, index, now_ns, &destination);
	if (err)
		return outcome_of(err, reason);
	if (!fits(session, frame, destination)) {
		*reason = RELAY_DROP_TOO_LONG;
		return SEND_REFUSED;
	}
	if (ktsn_ring_refuses(&session->ring, destination->network_bit)) {
		*reason = RELAY_DROP_CLOCK;
		return SEND_REFUSED;
	}
	if (ktsn_ring_claim(&session->ring, &slot))
		return SEND_RING_FULL;
	slot_publish(session, frame, slot, index, destination->number);
	relay_count(&session->setup->counters->handed[session->kind], 1);
	return SEND_DONE;
}

bool space_request(struct session *session)
{
	const uint64_t full = UINT64_MAX - 1;
	uint64_t count;

	if (session->space_flow == SESSION_FLOWS)
		return false;
	(void)!write(session->space_fd, &full, sizeof(full));
	ktsn_ring_space_poll(&session->ring, session->flows[session->space_flow].number);
	if (!ktsn_ring_has_space(&session->ring, 1))
		return true;
	(void)!read(session->space_fd, &count, sizeof(count));
	return false;
}
