/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which associations a ktsnd of this node has used, by their generation: no other one ever uses them again,
 * because their numbers would come again. The highest stands in a file, which a ktsnd that is killed leaves
 * behind as one that ends does. It is gone with the machine's memory, but then the agent has counted on.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_GENERATIONS_H
#define KTSN_DAEMON_GENERATIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct generations {
	const char *path;       /* of the file; the caller's. NULL: nobody is to know */
	_Atomic uint64_t *used; /* the highest; NULL: it has not been needed yet */
	uint32_t seen;          /* there, last: a higher one is another ktsnd's */
	uint32_t former;        /* the highest of others */
};

/* Opens the file, if that has not been done. 0 or -errno. */
int generations_open(struct generations *generations);
void generations_close(struct generations *generations);

/* Whether this ktsnd may use it, which counts as used by it from now on. The file is open. */
bool generations_claim(struct generations *generations, uint32_t generation);
/* The highest that another one has used. */
uint32_t generations_former(struct generations *generations);

#endif
