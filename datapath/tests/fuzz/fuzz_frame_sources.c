/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Untrusted frames: the source addresses that are read lie within the frame.
 */
#include "frame_sources.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static size_t length_of(const struct ktsn_frame_source *source)
{
	return source->kind == KTSN_SOURCE_MAC ? 6 : source->kind == KTSN_SOURCE_IPV4 ? 4 : 16;
}

/* EtherType first, then the bytes after it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ktsn_frame_source sources[KTSN_FRAME_SOURCES_MAX];
	uint16_t ethertype_be;
	uint8_t *payload;
	int count;

	if (size < sizeof(ethertype_be))
		return 0;
	memcpy(&ethertype_be, data, sizeof(ethertype_be));
	size -= sizeof(ethertype_be);
	/* The sanitizer knows where the buffer ends. */
	payload = malloc(size ? size : 1);
	must(payload != NULL);
	memcpy(payload, data + sizeof(ethertype_be), size);
	count = ktsn_frame_sources(ethertype_be, payload, size, sources);
	must(count <= KTSN_FRAME_SOURCES_MAX);
	for (int i = 0; i < count; i++)
		must(memmem(payload, size, sources[i].bytes, length_of(&sources[i])) != NULL);
	free(payload);
	return 0;
}
