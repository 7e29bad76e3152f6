/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of rings that is handed back: ktsnd takes only memory that it would create.
 */
#include "ring_pair.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "unit_test.h"

enum { SLOTS = 64, PAYLOAD_BYTES = 128 };

static struct ktsn_ring_geometry usual(void)
{
	return ktsn_ring_geometry_make(SLOTS, PAYLOAD_BYTES);
}

static int set_up(void **state)
{
	static struct ring_pair pair;

	*state = &pair;
	return ring_pair_init(&pair, SLOTS, PAYLOAD_BYTES);
}

static int tear_down(void **state)
{
	ring_pair_fini(*state);
	return 0;
}

/* Takes a descriptor as a ring of that geometry and returns the result; the descriptor stays the caller's. */
static int offered(int fd, struct ktsn_ring_geometry geometry)
{
	struct ktsn_ring_memory memory;
	int err = ktsn_ring_memory_adopt(&memory, fd, geometry);

	if (!err)
		ktsn_ring_memory_unmap(&memory);
	return err;
}

TEST_F(own_memory_is_taken)
{
	const struct ring_pair *pair = *state;
	struct ktsn_ring_memory memory;
	int fd = dup(pair->memory.fd);

	assert_int_equal(ktsn_ring_memory_adopt(&memory, fd, usual()), 0);
	assert_int_equal(memory.fd, fd);
	assert_int_equal(memory.id, pair->memory.id);
	assert_int_equal(memory.bytes, pair->memory.bytes);
	assert_memory_equal(&memory.geometry, &pair->memory.geometry, sizeof(memory.geometry));
	ktsn_ring_memory_destroy(&memory);
}

TEST_F(other_sizes_are_refused)
{
	const struct ring_pair *pair = *state;
	static const struct {
		const char *label;
		uint32_t slots, payload_bytes;
	} cases[] = {
		{"twice the slots", 2 * SLOTS, PAYLOAD_BYTES},
		{"larger slots", SLOTS, 4 * PAYLOAD_BYTES},
		{"smaller slots", SLOTS, 1},
		{"none", 0, PAYLOAD_BYTES},
		{"more than there can be", KTSN_RING_SLOTS_MAX + 1, PAYLOAD_BYTES},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!offered(pair->memory.fd,
			     ktsn_ring_geometry_make(cases[i].slots, cases[i].payload_bytes)))
			fail_msg("%s: taken", cases[i].label);
}

TEST_F(other_memory_is_refused)
{
	int memory = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING), pipe_fds[2];

	assert_int_equal(ftruncate(memory, (off_t)ktsn_ring_memory_bytes(usual())), 0);
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(offered(memory, usual()), -EPERM);
	assert_int_equal(offered(pipe_fds[0], usual()), -EPERM);
	assert_int_equal(offered(-1, usual()), -EPERM);
	close(memory);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

/* One field of a valid header replaced. */
TEST_F(other_headers_are_refused)
{
	struct ring_pair *pair = *state;
	static const struct {
		const char *label;
		size_t offset, bytes;
		uint64_t value;
		int result;
	} cases[] = {
#define FIELD(name) offsetof(struct ktsn_ring_header, name), sizeof(((struct ktsn_ring_header *)0)->name)
		{"no magic", FIELD(magic), 0, -EPROTO},
		{"older version", FIELD(version), KTSN_RING_VERSION - 1, -EPROTONOSUPPORT},
		{"newer version", FIELD(version), KTSN_RING_VERSION + 1, -EPROTONOSUPPORT},
		{"no slots", FIELD(slot_count), 0, -EBADMSG},
		{"fewer slots", FIELD(slot_count), SLOTS / 2, -EBADMSG},
		{"larger slots", FIELD(slot_bytes), 4096, -EBADMSG},
		{"slots in the header", FIELD(slots_offset), 64, -EBADMSG},
#undef FIELD
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t *field = (uint8_t *)pair->application + cases[i].offset;
		uint64_t good;
		int result;

		memcpy(&good, field, cases[i].bytes);
		memcpy(field, &cases[i].value, cases[i].bytes);
		result = offered(pair->memory.fd, usual());
		if (result != cases[i].result)
			fail_msg("%s: %d, not %d", cases[i].label, result, cases[i].result);
		memcpy(field, &good, cases[i].bytes);
	}
	assert_int_equal(offered(pair->memory.fd, usual()), 0);
}
