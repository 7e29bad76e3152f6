/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which networks are encrypted. The agent sends that, and the keys (associations.h).
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_ENCRYPTION_H
#define KTSN_DAEMON_ENCRYPTION_H

#include "log.h"
#include "loop_objects.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	/* The key of AES-128 and the salt after it (RFC 4106 section 8.1). */
	ASSOCIATION_KEY_BYTES = 20,
	/* Associations of a node: enough for a few starts of ktsnd until the agent sends more. */
	ASSOCIATIONS_PER_PEER_MAX = 8,
	/* Smaller numbers are reserved (RFC 4303 section 2.1). */
	ASSOCIATION_SPI_MIN = 256,
};

struct association {
	uint32_t spi;
	uint32_t generation; /* grows with each association that the node's agent creates */
	uint8_t key[ASSOCIATION_KEY_BYTES];
};

/* The associations of one node, the oldest generation first. */
struct association_list {
	uint32_t count;
	struct association entries[ASSOCIATIONS_PER_PEER_MAX];
};

/*
 * The associations that a ktsnd of this node has used, by their generation: no other ktsnd may use them
 * again, because sequence numbers would repeat. The highest is in a file, which stays when ktsnd ends or is
 * killed. It is lost when the machine restarts, but then the agent has created higher ones.
 */
struct generations {
	const char *path;       /* of the file; belongs to the caller; NULL: no file */
	_Atomic uint64_t *used; /* the highest generation; NULL: not needed yet */
	uint32_t seen;          /* last value in the file: a higher one was written by another ktsnd */
	uint32_t former;        /* the highest generation of other ktsnd */
};

/* More networks than any node has. */
enum { NETWORKS_ENCRYPTED_MAX = 4096, PEERS_ASSOCIATED_MAX = 4096 };

struct used_association;
struct loop_route;
struct routing;

/* "none", "preferred", "required". */
extern const char *const loop_encryption_names[LOOP_ENCRYPTIONS];

/* A network with encryption. */
struct network_encryption {
	uint32_t vni;
	enum loop_encryption encryption;
	struct network_encryption *next;
};

/* A node with associations. */
struct associated_peer {
	uint32_t address_be;
	uint32_t current; /* index in the list */
	struct association_list list;
	const struct loop_association *used; /* the current one, as the loop has it */
	struct associated_peer *next;
};

struct encryption {
	struct network_encryption *networks;
	uint32_t network_count;
	struct associated_peer *peers;
	uint32_t peer_count;
	struct used_association
		*used; /* all associations that the loop has or had and that were not freed yet */
	struct generations generations;
};

/* 0 or -ENOMEM. */
int encryption_init(struct routing *routing);
void encryption_fini(struct routing *routing);

/* Sets the encryption of a network for routes that are filled in later (routing.h). 0, -ENOMEM, or -EINVAL
 * with *refusal filled in; after an error nothing has changed. */
int encryption_network_set(struct routing *routing, uint32_t vni, enum loop_encryption encryption,
			   struct refusal *refusal);
enum loop_encryption encryption_of(const struct routing *routing, uint32_t vni);
/* Sets the encryption in the frames of a route. */
void encryption_route_fill(const struct routing *routing, uint32_t vni, struct loop_route *frames);

/* Rejects encryption where a switch makes the tunnels: ktsnd cannot encrypt its frames. 0, or -EINVAL with
 * *refusal filled in. */
int encryption_switched_refuse(const struct routing *routing, const char *field, struct refusal *refusal);

#endif
