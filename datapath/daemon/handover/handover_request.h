/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The successor's request for the hand-over, on the control socket (docs/control-protocol.md). The only part
 * of a hand-over in JSON. Called by the control thread.
 */
#ifndef KTSN_DAEMON_HANDOVER_REQUEST_H
#define KTSN_DAEMON_HANDOVER_REQUEST_H

#include "instance.h"

/* For the answer, and for each record after it. */
enum { HANDOVER_ANSWER_TIMEOUT_S = 10 };

/*
 * handover_request asks the predecessor to hand over, and waits until it begins or refuses. 0 when records
 * follow, -EALREADY when it is younger than `instance`, -EPROTONOSUPPORT when it does not know this ktsnd's
 * records, -EAGAIN when no answer came in time, or another -errno. Sets the time-out of the socket.
 */
int handover_request(int fd, const struct instance *instance);

#endif
