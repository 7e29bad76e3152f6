/* SPDX-License-Identifier: Apache-2.0 */
#include "destination_request.h"

#include "request.h"

#include <string.h>

struct ktsn_app_request destination_request(const struct flow *flow, const struct ktsn_app_key *key)
{
	struct ktsn_app_request request = flow_request(KTSN_APP_DESTINATION, flow);

	ktsn_app_key_put(&request, key);
	return request;
}

/* Returns the entry of a key, or the next one to replace. The caller holds the flow's lock. */
static struct destination *entry_for(struct destinations *destinations, const struct ktsn_app_key *key)
{
	for (int i = 0; i < FLOW_DESTINATIONS; i++)
		if (memcmp(&destinations->others[i].key, key, sizeof(*key)) == 0)
			return &destinations->others[i];
	return &destinations->others[destinations->others_next++ % FLOW_DESTINATIONS];
}

static int destination_ask(struct session *session, struct flow *flow, const struct ktsn_app_key *key)
{
	struct ktsn_app_request request = destination_request(flow, key);
	struct destination other;
	struct ktsn_app_reply reply;
	int err = session_request(session, &request, -1, &reply);

	if (!err)
		err = reply.status;
	if (err)
		return err;
	other = destination_of_reply(&reply);
	other.key = *key;
	destination_write(&flow->destinations, entry_for(&flow->destinations, key), other);
	return 0;
}

int flow_destination(struct session *session, struct flow *flow, const struct ktsn_app_key *key,
		     struct destination *destination)
{
	int err = destination_find(&flow->destinations, key, destination);

	if (err != -ENOENT)
		return err;
	lock_take(&session->registration_lock);
	lock_take(&flow->lock);
	/* Another thread may have asked meanwhile. */
	err = destination_find(&flow->destinations, key, destination) ? destination_ask(session, flow, key)
								      : 0;
	lock_give(&flow->lock);
	lock_give(&session->registration_lock);
	return err ? err : destination_find(&flow->destinations, key, destination);
}

int flow_destination_again(struct session *session, struct flow *flow, const struct ktsn_app_key *key,
			   struct destination *destination)
{
	int err;

	lock_take(&session->registration_lock);
	lock_take(&flow->lock);
	err = destination_ask(session, flow, key);
	lock_give(&flow->lock);
	lock_give(&session->registration_lock);
	return err ? err : destination_find(&flow->destinations, key, destination);
}
