/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The groups of the pods of a peer, by the announcements of its ktsnd and the reports of its pods. A peer
 * whose groups are unknown gets the messages of all groups: its ktsnd does not run, or the lifetime of its
 * last announcement is over.
 *
 * An announcement has all groups. A report through the tunnel means that a pod has just joined: it counts
 * until an announcement that is at least 2 s younger. So a new member gets messages even while the ktsnd of
 * its node is away.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_GROUP_PEERS_H
#define KTSN_DAEMON_GROUP_PEERS_H

#include "group_frames.h"

/* Groups that were reported and not announced; a peer that reports more gets everything for a while. */
enum { PEER_REPORTED_MAX = 16 };

struct peer_reported {
	struct ktsn_address group;
	int64_t reported_ms;
};

/* The last announcements that a peer has sent, by their numbers. */
struct peer_announcements {
	uint64_t received; /* bit 0: the last one; 0: it was lost */
	uint8_t count;     /* bits of it that are known; 0: the peer sends no numbers */
	uint32_t last_number;
};

struct peer_groups {
	bool known;      /* until known_until_ms */
	bool everything; /* the peer announced that it wants all groups */
	int64_t known_until_ms;
	int64_t everything_until_ms; /* the peer reported too many groups; 0: it did not */
	uint32_t announced_count, reported_count;
	struct ktsn_address *announced; /* sorted */
	struct peer_reported *reported; /* room for PEER_REPORTED_MAX, or NULL */
	/* The announcement of this node to the peer. */
	int64_t announce_ms; /* when it is due, on CLOCK_MONOTONIC; 0: the peer is new */
	uint8_t repeats;     /* left, because the first announcement may be lost */
	uint8_t failures;    /* since the last announcement that was sent */
	uint32_t number;     /* of the next announcement */
};

/* Takes an announcement or report of the peer; `now_ms` on CLOCK_MONOTONIC. Returns whether its groups have
 * changed. */
bool peer_groups_take(struct peer_groups *groups, const struct group_packet *packet, int64_t now_ms);
/* Returns whether an announcement or reports have expired. */
bool peer_groups_expire(struct peer_groups *groups, int64_t now_ms);
bool peer_groups_want(const struct peer_groups *groups, const struct ktsn_address *group, int64_t now_ms);
void peer_groups_fini(struct peer_groups *groups);

/* Takes the number of a received announcement. The numbers of a ktsnd that has been started again begin
 * again; its first ones, if they are lost, are not noticed. */
void peer_announcements_take(struct peer_announcements *announcements, uint32_t number);
uint32_t peer_announcements_lost(const struct peer_announcements *announcements);

#endif
