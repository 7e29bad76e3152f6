/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encryption on the control socket (docs/control-protocol.md). Pure.
 */
#ifndef KTSN_DAEMON_CONTROL_ENCRYPTION_H
#define KTSN_DAEMON_CONTROL_ENCRYPTION_H

#include "associations.h"
#include "log.h"

#include <jansson.h>

/* Reads network-encryption-set. Returns 0, or -EINVAL with *refusal filled in. */
int control_encryption_read(const json_t *value, enum loop_encryption *encryption, struct refusal *refusal);
/* Reads security-associations-set. Returns as above. */
int control_associations_read(const json_t *value, struct association_list *list, struct refusal *refusal);

json_t *control_network_encryption_json(const struct network_encryption *network);
json_t *control_association_json(const struct association_state *state);

/* Makes jansson wipe memory that it frees, because keys have been in it. */
void control_json_wipe(void);

#endif
