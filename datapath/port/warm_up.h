/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warming the kernel's send path before a departure.
 *
 * A port that is a packet socket sends through kernel code that has not run since the last departure. On a
 * processor that slept in between, fetching that code from memory takes longer than running it (measured:
 * half of the time between release and wire). While ktsnd is awake and waits, it sends one frame through the
 * same code over the loopback device, where a filter drops it. Its EtherType is one that IEEE 802 reserves
 * for local experiments. Nothing is sent on the wire.
 *
 * create, destroy: main thread. once: loop thread.
 */
#ifndef KTSN_PORT_WARM_UP_H
#define KTSN_PORT_WARM_UP_H

struct warm_up;

/* 0 or -errno. Without it frames still leave in time, but a little later after their release. */
int warm_up_create(struct warm_up **warm_up);
void warm_up_once(struct warm_up *warm_up);
/* NULL is harmless. */
void warm_up_destroy(struct warm_up *warm_up);

#endif
