/* SPDX-License-Identifier: Apache-2.0 */
#include "pod.h"

#include <string.h>

struct pod *pod_find(const struct node *node, const char *identity)
{
	struct pod *pod = node->pods;

	while (pod && strcmp(pod->identity, identity) != 0)
		pod = pod->next;
	return pod;
}
