/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which keys frames to each node are sealed. The agent gives several associations for a node, of which
 * this ktsnd uses the first that none has used before it, and goes on to the next when the numbers of that
 * one come to their end. So one that takes over needs no agent.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_ASSOCIATIONS_H
#define KTSN_DAEMON_ASSOCIATIONS_H

#include "encryption.h"

/* Of one node, what ktsnd tells. */
struct association_state {
	uint32_t peer_be;
	uint32_t spi, generation;
	uint32_t sequence; /* the last number given */
	uint32_t left;     /* that come after it */
};

/* Replaces the associations of a node; none: it is forgotten. 0, -ENOMEM, or -EINVAL with
 * *refusal filled in; then nothing changed. */
int associations_set(struct routing *routing, uint32_t peer_be, const struct association_list *list,
		     struct refusal *refusal);

const struct associated_peer *associations_peers(const struct routing *routing);
struct association_state association_state_of(const struct associated_peer *peer);
/* The highest generation that any ktsnd of this node has used: only higher ones may still be. 0: none. */
uint32_t associations_used_generation(const struct routing *routing);

/* In that file stands which associations have been used (generations.h), before the first is given; NULL:
 * nobody is to know. The path is the caller's and stays. */
void associations_generations_at(struct routing *routing, const char *path);
/* The loop's thread has ended, and what it has retired was freed. */
void associations_fini(struct routing *routing);
/* The loop has retired it. */
void association_free(void *owner);

/* Numbers that come to their end. Returns ms until they are looked at again, -1: there are none. */
int associations_tick(struct routing *routing);

#endif
