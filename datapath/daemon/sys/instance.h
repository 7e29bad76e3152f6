/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ktsnd of a node this is: its name, and when it was born. Of several on one node the youngest serves.
 *
 * The birth is that of the pod, or of whatever else a folder lives as long as (--instance-dir): the file
 * `born` is made at the first start, and read at all others. Main thread, before others are made.
 */
#ifndef KTSN_SYS_INSTANCE_H
#define KTSN_SYS_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>

enum { INSTANCE_NAME_MAX = 253, BOOT_ID_CHARACTERS = 36 };

struct instance {
	char name[INSTANCE_NAME_MAX + 1];     /* "": it has none */
	char boot_id[BOOT_ID_CHARACTERS + 1]; /* of the kernel's start in which it was born */
	int64_t born_ns;                      /* CLOCK_BOOTTIME; 0: it did not say */
};

/* Reads the file `born` in the folder, or makes it. 0; or -errno, and what is wrong has been said. */
int instance_born(struct instance *instance, const char *folder);

/* Has it be born now, also for its next start. 0; or -errno, and what is wrong has been said. */
int instance_renew(struct instance *instance, const char *folder);

/* Whether one was born before the other. Of two of different starts of the kernel the one of this start is
 * younger. False where one of them did not say, or neither can be told to be. */
bool instance_is_older(const struct instance *one, const struct instance *other);

/* Whether it is text that instance_born() could have read: letters, digits and '-', and not too long. */
bool instance_boot_id_valid(const char *text);

#endif
