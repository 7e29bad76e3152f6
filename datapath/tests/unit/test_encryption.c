/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The association by which ktsnd seals is never one that another ktsnd of the node has used. Each ktsnd is a
 * routing with a loop that does not run. All share one file, like consecutive ktsnds of a node.
 */
#include "associations.h"
#include "port_fake.h"
#include "routing_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit_test.h"

enum { PEER = 0xc0000202, OTHER = 0xc0000203, LOCAL = 0xc0000201 };

struct ktsnd {
	struct ktsn_port *port;
	struct routing routing;
};

static char path[] = "/tmp/ktsn-test-generations-XXXXXX";

static int set_up(void **state)
{
	int fd = mkstemp(strcpy(path, "/tmp/ktsn-test-generations-XXXXXX"));

	if (fd < 0)
		return -1;
	close(fd);
	return unlink(path);
}

static int tear_down(void **state)
{
	return unlink(path) && errno != ENOENT ? -1 : 0;
}

static struct ktsnd *ktsnd_start(void)
{
	struct ktsnd *ktsnd = calloc(1, sizeof(*ktsnd));
	struct loop_config config = {.packets = 64, .cpu = -1};

	assert_non_null(ktsnd);
	ktsnd->port = config.port = config.bridge_port = ktsn_port_fake_create(64, 2048);
	assert_non_null(ktsnd->port);
	assert_int_equal(loop_create(&ktsnd->routing.loop, &config), 0);
	ktsnd->routing.uplink.local_address_be = htonl(LOCAL);
	ktsnd->routing.uplink.encrypted_port = 4793;
	assert_int_equal(encryption_init(&ktsnd->routing), 0);
	associations_generations_path_set(&ktsnd->routing, path);
	return ktsnd;
}

/* However a ktsnd ends, the file names the associations that it used. */
static void ktsnd_end(struct ktsnd *ktsnd)
{
	loop_destroy(ktsnd->routing.loop);
	associations_fini(&ktsnd->routing);
	encryption_fini(&ktsnd->routing);
	ktsn_port_destroy(ktsnd->port);
	free(ktsnd);
}

static struct association_list list_make(uint32_t first, uint32_t count)
{
	struct association_list list = {.count = count};

	for (uint32_t i = 0; i < count; i++) {
		list.entries[i].generation = first + i;
		list.entries[i].spi = 1000 + first + i;
		memcpy(list.entries[i].key, &list.entries[i].spi, sizeof(list.entries[i].spi));
	}
	return list;
}

static int give(struct ktsnd *ktsnd, uint32_t peer, uint32_t first, uint32_t count, struct refusal *refusal)
{
	const struct association_list list = list_make(first, count);

	memset(refusal, 0, sizeof(*refusal));
	return associations_set(&ktsnd->routing, htonl(peer), &list, refusal);
}

static const struct associated_peer *peer_of(const struct ktsnd *ktsnd, uint32_t address)
{
	const struct associated_peer *peer = ktsnd->routing.encryption->peers;

	while (peer && peer->address_be != htonl(address))
		peer = peer->next;
	return peer;
}

static void assert_uses(const struct ktsnd *ktsnd, uint32_t address, uint32_t generation, uint32_t left)
{
	const struct associated_peer *peer = peer_of(ktsnd, address);
	struct association_state state;

	assert_non_null(peer);
	state = association_state_of(peer);
	assert_int_equal(state.generation, generation);
	assert_int_equal(state.spi, 1000 + generation);
	assert_int_equal(state.left, left);
}

TEST_F(first_association_is_used)
{
	struct ktsnd *ktsnd = ktsnd_start();
	struct refusal refusal;

	assert_int_equal(give(ktsnd, PEER, 7, 3, &refusal), 0);
	assert_uses(ktsnd, PEER, 7, 2);
	/* Another node has another key for the same generation. */
	assert_int_equal(give(ktsnd, OTHER, 7, 3, &refusal), 0);
	assert_uses(ktsnd, OTHER, 7, 2);
	/* It takes more and continues. */
	assert_int_equal(give(ktsnd, PEER, 7, 4, &refusal), 0);
	assert_uses(ktsnd, PEER, 7, 3);
	ktsnd_end(ktsnd);
}

TEST_F(newer_keys_are_used_at_once)
{
	struct ktsnd *ktsnd = ktsnd_start();
	struct refusal refusal;

	assert_int_equal(give(ktsnd, PEER, 7, 3, &refusal), 0);
	assert_int_equal(give(ktsnd, PEER, 8, 3, &refusal), 0);
	assert_uses(ktsnd, PEER, 8, 2);
	assert_int_equal(give(ktsnd, PEER, 12, 1, &refusal), 0);
	assert_uses(ktsnd, PEER, 12, 0);
	ktsnd_end(ktsnd);
}

TEST_F(used_associations_are_not_reused)
{
	struct refusal refusal;

	for (uint32_t life = 0; life < 3; life++) {
		struct ktsnd *ktsnd = ktsnd_start();

		assert_int_equal(associations_used_generation(&ktsnd->routing), life ? 6 + life : 0);
		assert_int_equal(give(ktsnd, PEER, 7, 3, &refusal), 0);
		assert_uses(ktsnd, PEER, 7 + life, 2 - life);
		/* This includes nodes to which the others have sent nothing: the count is the node's. */
		assert_int_equal(give(ktsnd, OTHER, 7, 3, &refusal), 0);
		assert_uses(ktsnd, OTHER, 7 + life, 2 - life);
		ktsnd_end(ktsnd);
	}
	{
		struct ktsnd *ktsnd = ktsnd_start();

		assert_int_equal(give(ktsnd, PEER, 7, 3, &refusal), -EINVAL);
		assert_string_equal(refusal.field, "associations");
		assert_non_null(strstr(refusal.message,
				       "the newest generation is 9, and another ktsnd of this "
				       "node has used 9; give newer ones"));
		assert_null(peer_of(ktsnd, PEER));
		assert_int_equal(associations_used_generation(&ktsnd->routing), 9);
		ktsnd_end(ktsnd);
	}
}

/* A successor that never served has claimed some: the running ktsnd keeps its association. */
TEST_F(running_ktsnd_keeps_its_association)
{
	struct ktsnd *ktsnd = ktsnd_start(), *successor = ktsnd_start();
	struct refusal refusal;

	assert_int_equal(give(ktsnd, PEER, 7, 4, &refusal), 0);
	assert_int_equal(give(successor, PEER, 7, 4, &refusal), 0);
	assert_uses(successor, PEER, 8, 2);
	ktsnd_end(successor);
	assert_uses(ktsnd, PEER, 7, 3);
	assert_int_equal(give(ktsnd, PEER, 8, 3, &refusal), 0);
	assert_uses(ktsnd, PEER, 9, 1);
	ktsnd_end(ktsnd);
}

TEST_F(bad_lists_change_nothing)
{
	struct association_list other = list_make(7, 1);
	struct ktsnd *ktsnd = ktsnd_start();
	struct refusal refusal;

	assert_int_equal(give(ktsnd, LOCAL, 7, 1, &refusal), -EINVAL);
	assert_string_equal(refusal.field, "peer");
	assert_int_equal(give(ktsnd, PEER, 7, 3, &refusal), 0);
	assert_int_equal(give(ktsnd, PEER, 5, 2, &refusal), -EINVAL);
	assert_string_equal(refusal.message, "the newest generation is 6, and 7 is in use; give newer ones");
	other.entries[0].key[0] ^= 1;
	assert_int_equal(associations_set(&ktsnd->routing, htonl(PEER), &other, &refusal), -EINVAL);
	assert_string_equal(refusal.message,
			    "generation 7 is in use with another spi or key; give those another generation");
	assert_uses(ktsnd, PEER, 7, 2);
	ktsnd->routing.uplink.switched = true;
	assert_int_equal(give(ktsnd, PEER, 8, 1, &refusal), -EINVAL);
	assert_non_null(strstr(refusal.message, "uplink ovs encrypts nothing"));
	assert_int_equal(encryption_network_set(&ktsnd->routing, 42, LOOP_REQUIRED, &refusal), -EINVAL);
	assert_int_equal(encryption_of(&ktsnd->routing, 42), LOOP_CLEAR);
	assert_int_equal(encryption_network_set(&ktsnd->routing, 42, LOOP_CLEAR, &refusal), 0);
	ktsnd_end(ktsnd);
}

TEST_F(without_the_file_no_association_is_used)
{
	struct ktsnd *ktsnd = ktsnd_start();
	struct refusal refusal;

	associations_generations_path_set(&ktsnd->routing, "/proc/no-such-folder/generations");
	assert_int_equal(give(ktsnd, PEER, 7, 1, &refusal), -EINVAL);
	assert_non_null(strstr(refusal.message, "without that file an association could be used twice"));
	assert_null(peer_of(ktsnd, PEER));
	ktsnd_end(ktsnd);
}

TEST_F(empty_list_removes_the_node)
{
	struct ktsnd *ktsnd = ktsnd_start();
	struct refusal refusal;

	assert_int_equal(give(ktsnd, PEER, 7, 0, &refusal), 0);
	assert_int_equal(give(ktsnd, PEER, 7, 1, &refusal), 0);
	assert_int_equal(give(ktsnd, OTHER, 7, 1, &refusal), 0);
	assert_int_equal(give(ktsnd, PEER, 7, 0, &refusal), 0);
	assert_null(peer_of(ktsnd, PEER));
	assert_non_null(peer_of(ktsnd, OTHER));
	ktsnd_end(ktsnd);
}

TEST_F(next_association_before_numbers_end)
{
	struct ktsnd *ktsnd = ktsnd_start();
	struct loop_association *used;
	struct refusal refusal;

	assert_int_equal(associations_tick(&ktsnd->routing), -1);
	assert_int_equal(give(ktsnd, PEER, 7, 2, &refusal), 0);
	used = (struct loop_association *)peer_of(ktsnd, PEER)->used;
	used->sequence = UINT32_MAX - (1 << 24) - 1;
	assert_true(associations_tick(&ktsnd->routing) > 0);
	assert_uses(ktsnd, PEER, 7, 1);
	used->sequence++;
	(void)associations_tick(&ktsnd->routing);
	assert_uses(ktsnd, PEER, 8, 0);
	used = (struct loop_association *)peer_of(ktsnd, PEER)->used;
	used->sequence = UINT32_MAX;
	/* There is no other association. */
	(void)associations_tick(&ktsnd->routing);
	assert_uses(ktsnd, PEER, 8, 0);
	ktsnd_end(ktsnd);
}

TEST_F(networks_are_kept_until_removed)
{
	struct loop_route frames = {.encryption = LOOP_CLEAR};
	struct ktsnd *ktsnd = ktsnd_start();
	struct refusal refusal;

	ktsnd->routing.uplink.vxlan_port = 4789;
	assert_int_equal(encryption_network_set(&ktsnd->routing, 42, LOOP_PREFERRED, &refusal), 0);
	assert_int_equal(encryption_network_set(&ktsnd->routing, 43, LOOP_REQUIRED, &refusal), 0);
	encryption_route_fill(&ktsnd->routing, 43, &frames);
	assert_int_equal(frames.encryption, LOOP_REQUIRED);
	assert_true(frames.tunnel.esp);
	assert_int_equal(frames.tunnel.outer.destination_port_be, htons(4793));
	assert_int_equal(encryption_network_set(&ktsnd->routing, 43, LOOP_CLEAR, &refusal), 0);
	encryption_route_fill(&ktsnd->routing, 43, &frames);
	assert_false(frames.tunnel.esp);
	assert_int_equal(frames.tunnel.outer.destination_port_be, htons(4789));
	assert_int_equal(encryption_of(&ktsnd->routing, 42), LOOP_PREFERRED);
	for (uint32_t vni = 100; vni < 100 + NETWORKS_ENCRYPTED_MAX - 1; vni++)
		assert_int_equal(encryption_network_set(&ktsnd->routing, vni, LOOP_PREFERRED, &refusal), 0);
	assert_int_equal(encryption_network_set(&ktsnd->routing, 9, LOOP_PREFERRED, &refusal), -EINVAL);
	assert_string_equal(refusal.field, "vni");
	ktsnd_end(ktsnd);
}
