/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which frames an application may send that writes them itself: from whose addresses, and of which priority.
 * Loop thread only.
 */
#ifndef KTSN_LOOP_ADMISSION_H
#define KTSN_LOOP_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop_destination;

/* The priority of a message of a flow of frames, which says `priority`; or what its VLAN tag says, if that
 * counts. */
uint8_t admission_priority(const struct loop_destination *destination, uint16_t ethertype_be,
			   uint8_t priority, const uint8_t *payload, size_t bytes);

/* Whether a message of a packet socket may leave. Its payload stands where the application cannot write. */
bool admission_allows(const struct loop_destination *destination, uint16_t ethertype_be, uint8_t priority,
		      const uint8_t *payload, size_t bytes);

#endif
