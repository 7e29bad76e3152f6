/* SPDX-License-Identifier: Apache-2.0 */
/* Keys by which frames to a node are sealed, as the agent gives them. What is done with them: encryption.h.
 */
#ifndef KTSN_DAEMON_ASSOCIATION_H
#define KTSN_DAEMON_ASSOCIATION_H

#include <stdint.h>

enum {
	/* Of AES-128, and the salt behind it (RFC 4106 section 8.1). */
	ASSOCIATION_KEY_BYTES = 20,
	/* Of a node: what a few starts of ktsnd need until the agent gives more. */
	ASSOCIATIONS_PER_PEER_MAX = 8,
	/* Those below are reserved (RFC 4303 section 2.1). */
	ASSOCIATION_SPI_MIN = 256,
};

struct association {
	uint32_t spi;
	uint32_t generation; /* grows with each that the node's agent makes */
	uint8_t key[ASSOCIATION_KEY_BYTES];
};

/* Of one node, the oldest generation first. */
struct association_list {
	uint32_t count;
	struct association entries[ASSOCIATIONS_PER_PEER_MAX];
};

#endif
