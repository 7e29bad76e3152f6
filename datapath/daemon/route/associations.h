/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys for frames to each node. The agent sends several associations for a node. This ktsnd uses the
 * first that no other has used before, and continues with the next when its sequence numbers are nearly used
 * up. So a successor needs no agent.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_ASSOCIATIONS_H
#define KTSN_DAEMON_ASSOCIATIONS_H

#include "encryption.h"

/* Status of one node. */
struct association_state {
	uint32_t peer_be;
	uint32_t spi, generation;
	uint32_t sequence; /* the last number used */
	uint32_t left;     /* associations after it */
};

/* Replaces the associations of a node; with none the node is forgotten. 0, -ENOMEM, or -EINVAL with *refusal
 * filled in; after an error nothing has changed. */
int associations_set(struct routing *routing, uint32_t peer_be, const struct association_list *list,
		     struct refusal *refusal);

/* Whether a node has associations. */
bool association_exists(const struct routing *routing, uint32_t address_be);

struct association_state association_state_of(const struct associated_peer *peer);
/* Returns the highest generation that any ktsnd of this node has used: only higher ones may be used. 0: none.
 */
uint32_t associations_used_generation(const struct routing *routing);

/* Sets the file of used associations (struct generations), before the first association is set; NULL: no
 * file. The path belongs to the caller and must stay valid. */
void associations_generations_path_set(struct routing *routing, const char *path);
/* The loop's thread must have ended, and its retired objects must have been freed. */
void associations_fini(struct routing *routing);
/* Frees an association that the loop has retired. */
void association_free(void *owner);

/* Replaces associations whose numbers are nearly used up. Returns ms until it must be called again, or -1. */
int associations_tick(struct routing *routing);

#endif
