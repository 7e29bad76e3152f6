/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects `sources` and `grants` of the control socket: the addresses and priorities that an endpoint may
 * send. Pure.
 */
#ifndef KTSN_DAEMON_CONTROL_ADMISSION_H
#define KTSN_DAEMON_CONTROL_ADMISSION_H

#include "endpoint_admission.h"
#include "log.h"

#include <jansson.h>

/* Returns 0, or -EINVAL with *refusal filled in. */
int control_sources_read(const json_t *value, struct endpoint_admission *admission, struct refusal *refusal);
int control_grants_read(const json_t *value, struct endpoint_admission *admission, struct refusal *refusal);

json_t *control_sources_json(const struct endpoint_admission *admission);
json_t *control_grants_json(const struct endpoint_admission *admission);

#endif
