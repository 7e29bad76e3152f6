/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A vhost-user front end without a guest: DPDK's virtio-user device. One thread.
 */
#ifndef KTSN_TEST_GUEST_FRONT_END_H
#define KTSN_TEST_GUEST_FRONT_END_H

#include <stdbool.h>
#include <stdint.h>

enum { FRONT_END_FRAME_BYTES = 2048, FRONT_END_BURST = 32 };

/* Creates this many queue pairs. With `listens` the back end connects to `path`, and this waits for the
 * first connection. */
int front_end_begin(const char *path, int pairs, bool listens);

bool front_end_is_connected(void);

/* Sends one frame, waiting for space. */
void front_end_send(int pair, const uint8_t *frame, uint16_t bytes);

/* Sends a burst of copies of a frame; returns how many fitted. */
int front_end_flood(int pair, const uint8_t *frame, uint16_t bytes);

/* Receives a frame from that pair; 0: none. */
uint16_t front_end_receive(int pair, uint8_t frame[FRONT_END_FRAME_BYTES]);

#endif
