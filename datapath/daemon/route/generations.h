/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The associations that a ktsnd of this node has used, by their generation: no other ktsnd may use them
 * again, because sequence numbers would repeat. The highest is in a file, which stays when ktsnd ends or is
 * killed. It is lost when the machine restarts, but then the agent has created higher ones.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_GENERATIONS_H
#define KTSN_DAEMON_GENERATIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct generations {
	const char *path;       /* of the file; belongs to the caller; NULL: no file */
	_Atomic uint64_t *used; /* the highest generation; NULL: not needed yet */
	uint32_t seen;          /* last value in the file: a higher one was written by another ktsnd */
	uint32_t former;        /* the highest generation of other ktsnd */
};

/* Opens the file unless it is open. 0 or -errno. */
int generations_open(struct generations *generations);
void generations_close(struct generations *generations);

/* Whether this ktsnd may use the generation; if so it is marked as used. The file must be open. */
bool generations_claim(struct generations *generations, uint32_t generation);
/* Returns the highest generation that another ktsnd has used. */
uint32_t generations_former(struct generations *generations);

#endif
