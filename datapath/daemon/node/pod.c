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

bool pod_receives(const struct pod *pod)
{
	for (const struct endpoint *endpoint = pod->endpoints.first; endpoint; endpoint = endpoint->next)
		if (endpoint->receive)
			return true;
	return false;
}
