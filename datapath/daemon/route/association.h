/* SPDX-License-Identifier: Apache-2.0 */
/* Security associations of a node, as the agent sends them. For their use see encryption.h. */
#ifndef KTSN_DAEMON_ASSOCIATION_H
#define KTSN_DAEMON_ASSOCIATION_H

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

#endif
