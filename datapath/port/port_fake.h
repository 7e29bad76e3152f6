/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port for tests: keeps a copy of every frame sent, and fails on request.
 *
 * One thread uses the port itself, as port.h describes. The functions below may be called from
 * one other thread at the same time, until the port is destroyed: a frame below the count that was seen
 * is complete and neither changes nor moves.
 */
#ifndef KTSN_PORT_FAKE_H
#define KTSN_PORT_FAKE_H

#include "port.h"

/* A port with buffer_count buffers of buffer_bytes each; NULL when out of memory. Unlike a real port, it
 * allocates memory in send, and the record grows without bound. */
struct ktsn_port *ktsn_port_fake_create(uint32_t buffer_count, uint32_t buffer_bytes);

/* Frames sent so far. */
size_t ktsn_port_fake_sent_count(const struct ktsn_port *port);

/* Frame number `index` (from 0, in the order of sending) and its length; NULL when not sent yet. */
const uint8_t *ktsn_port_fake_sent(const struct ktsn_port *port, size_t index, uint32_t *bytes);

/* Which send took that frame, counted from 1; 0 when it is not sent yet. */
uint32_t ktsn_port_fake_sent_by(const struct ktsn_port *port, size_t index);

/* The next `sends` sends take at most `frames` frames each (0: none). Replaces an earlier limit. */
void ktsn_port_fake_limit_next(struct ktsn_port *port, uint32_t sends, uint32_t frames);

/* The next `frames` frames are taken, but reported as errors and not recorded; each is the last that its send
 * takes. Replaces what is left of an earlier call. */
void ktsn_port_fake_fail_next(struct ktsn_port *port, uint32_t frames);

/* Buffers that the sender has allocated and neither sent nor freed. */
uint32_t ktsn_port_fake_buffers_in_use(const struct ktsn_port *port);

#endif
