/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes that a guest may send, as librte_vhost copied them from its memory: the decisions about them read
 * nothing outside, and every priority is valid.
 */
#include "bypass.h"
#include "frame_class.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct captured_frame frame;
	uint8_t *bytes = malloc(size ? size : 1); /* so that reads beyond it are detected */

	must(bytes != NULL);
	memcpy(bytes, data, size);
	if (captured_frame_parse(bytes, size, &frame) == CAPTURED) {
		must(class_priority(CLASS_BY_PCP, &frame, 0) < 8);
		must(class_priority(CLASS_BY_RECORD, &frame, 0) < 16);
		if (control_frame_is(&frame))
			must(frame.addresses[0] & 1);
	}
	free(bytes);
	return 0;
}
