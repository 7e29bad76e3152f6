/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the control socket says of encryption (docs/control-protocol.md). Pure.
 */
#ifndef KTSN_DAEMON_CONTROL_ENCRYPTION_H
#define KTSN_DAEMON_CONTROL_ENCRYPTION_H

#include "associations.h"
#include "log.h"

#include <jansson.h>

/* Of network-encryption-set. 0, or -EINVAL with *refusal filled in. */
int control_encryption_read(const json_t *value, enum loop_encryption *encryption, struct refusal *refusal);
/* Of security-associations-set. Likewise. */
int control_associations_read(const json_t *value, struct association_list *list, struct refusal *refusal);

json_t *control_network_encryption_json(const struct network_encryption *network);
json_t *control_association_json(const struct association_state *state);

/* From now on the memory of what is read and said is wiped when it is freed: keys have been in it. */
void control_json_wipe(void);

#endif
