/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of a ktsnd: its name, and its time of birth. The youngest of several on a node serves.
 *
 * The time of birth is that of the folder of --instance-dir, which lives as long as the pod: the file `born`
 * is written at the first start, and read at all others. Main thread, before others are created.
 */
#ifndef KTSN_SYS_INSTANCE_H
#define KTSN_SYS_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>

enum { INSTANCE_NAME_MAX = 253, BOOT_ID_CHARACTERS = 36 };

struct instance {
	char name[INSTANCE_NAME_MAX + 1];     /* "": none */
	char boot_id[BOOT_ID_CHARACTERS + 1]; /* the kernel's boot ID at its birth */
	int64_t born_ns;                      /* CLOCK_BOOTTIME; 0: unknown */
};

/* Reads the file `born` in the folder, or creates it. 0, or -errno after an error message. */
int instance_born(struct instance *instance, const char *folder);

/* Sets the time of birth to now, also for the next start. 0, or -errno after an error message. */
int instance_renew(struct instance *instance, const char *folder);

/* Whether a was born before b. An instance that was born before the last boot is older than one that was born
 * since. Returns false if this cannot be determined. */
bool instance_is_older(const struct instance *a, const struct instance *b);

/* Whether the text could be a boot ID: letters, digits and '-', and not too long. */
bool instance_boot_id_valid(const char *text);

#endif
