/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warming the kernel's send path before a departure.
 *
 * A port that is a packet socket sends through kernel code that has not run since the last departure; on
 * a CPU that slept in between, fetching it from memory costs more than running it (measured: half of the
 * time between release and wire). While ktsnd is awake and waiting, one frame goes the same way over the
 * loopback device and ends there, in a filter that drops it: its EtherType is the one that IEEE 802 keeps
 * for local experiments. Nothing reaches the wire.
 *
 * create, destroy: main thread. once: loop thread.
 */
#ifndef KTSN_PORT_WARM_UP_H
#define KTSN_PORT_WARM_UP_H

struct warm_up;

/* 0 or -errno. Without it frames still leave in time, only a little later after their release. */
int warm_up_create(struct warm_up **warm_up);
void warm_up_once(struct warm_up *warm_up);
/* NULL is harmless. */
void warm_up_destroy(struct warm_up *warm_up);

#endif
