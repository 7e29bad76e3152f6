/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forwarding of hardware addresses, on the control thread. The test takes the place of the kernel.
 */
#include "forwarding.h"
#include "hash_table.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "unit_test.h"

enum { BRIDGE = 7, TUNNEL = 8, PORT = 9, OTHER_PORT = 10, ENTRIES = 2 };
enum { REMOTE = 0x0200c000, OTHER_REMOTE = 0x0300c000 };

static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1}, nobody[6];

/* The kernel's two entries of the address; kernel_err != 0: no answer. */
static struct rtnl_forwarding kernel[ENTRIES];
static int kernel_err;
static uint32_t queries;

int __wrap_rtnl_forwarding_get(struct rtnl *rtnl, enum rtnl_forwarding_device device, int device_link_index,
			       const uint8_t wanted[6], struct rtnl_forwarding *entry);

int __wrap_rtnl_forwarding_get(struct rtnl *rtnl, enum rtnl_forwarding_device device, int device_link_index,
			       const uint8_t wanted[6], struct rtnl_forwarding *entry)
{
	assert_int_equal(device, device_link_index == TUNNEL ? FORWARDING_TUNNEL : FORWARDING_BRIDGE);
	assert_memory_equal(wanted, mac, sizeof(mac));
	queries++;
	*entry = kernel[device];
	return kernel_err;
}

struct bench {
	struct namespace own_ns;
	struct routing routing;
	struct forwarding_watch watch;
};

static struct bench bench;

static int set_up(void **state)
{
	memset(&bench, 0, sizeof(bench));
	memset(kernel, 0, sizeof(kernel));
	bench.routing.own_ns = &bench.own_ns;
	kernel_err = 0;
	queries = 0;
	return 0;
}

static int tear_down(void **state)
{
	forwarding_watch_set(&bench.routing, &bench.watch, 0, 0, nobody);
	assert_int_equal(bench.routing.forwarding.entries ? bench.routing.forwarding.entries->count : 0, 0);
	forwarding_fini(&bench.routing);
	return 0;
}

static struct rtnl_forwarding at_port(int port_link_index)
{
	struct rtnl_forwarding entry = {
		.device_link_index = BRIDGE, .known = true, .port_link_index = port_link_index};

	memcpy(entry.mac, mac, sizeof(mac));
	return entry;
}

static struct rtnl_forwarding at_node(uint32_t remote_be)
{
	struct rtnl_forwarding entry = {.device_link_index = TUNNEL, .known = true, .remote_be = remote_be};

	memcpy(entry.mac, mac, sizeof(mac));
	return entry;
}

static struct rtnl_forwarding for_good(struct rtnl_forwarding entry)
{
	entry.configured = true;
	return entry;
}

static void watch(void)
{
	forwarding_watch_set(&bench.routing, &bench.watch, BRIDGE, TUNNEL, mac);
}

static void assert_place(int port_link_index, uint32_t remote_be)
{
	struct forwarding_place place = forwarding_find(&bench.routing, &bench.watch);

	assert_int_equal(place.port_link_index, port_link_index);
	assert_int_equal(place.remote_be, remote_be);
	assert_false(forwarding_watch_changed(&bench.routing, &bench.watch));
}

static void notify(struct rtnl_forwarding entry)
{
	forwarding_entry_changed(&bench.routing, &entry);
}

TEST(address_is_read_from_the_kernel)
{
	static const struct {
		const char *label;
		struct rtnl_forwarding bridge, tunnel;
		int port_link_index;
		uint32_t remote_be;
	} cases[] = {
		{"nowhere", {.known = false}, {.known = false}, 0, 0},
		{"behind a node",
		 {.known = true, .port_link_index = TUNNEL},
		 {.known = true, .remote_be = 5},
		 0,
		 5},
		{"behind a node, no longer in the bridge",
		 {.known = false},
		 {.known = true, .remote_be = 5},
		 0,
		 5},
		{"behind the tunnel, nobody knows where",
		 {.known = true, .port_link_index = TUNNEL},
		 {0},
		 0,
		 0},
		{"at a port", {.known = true, .port_link_index = PORT}, {.known = false}, PORT, 0},
		{"at a port now, behind a node before",
		 {.known = true, .port_link_index = PORT},
		 {.known = true, .remote_be = 5},
		 PORT,
		 0},
		{"learnt at a port, for good behind a node",
		 {.known = true, .port_link_index = PORT},
		 {.known = true, .configured = true, .remote_be = 5},
		 0,
		 5},
		{"learnt behind a node, for good at a port",
		 {.known = true, .configured = true, .port_link_index = PORT},
		 {.known = true, .remote_be = 5},
		 PORT,
		 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		(void)set_up(state);
		kernel[FORWARDING_BRIDGE] = cases[i].bridge;
		kernel[FORWARDING_TUNNEL] = cases[i].tunnel;
		print_message("# %s\n", cases[i].label);
		watch();
		assert_place(cases[i].port_link_index, cases[i].remote_be);
		(void)tear_down(state);
	}
}

TEST_F(address_changes_are_followed)
{
	struct rtnl_forwarding unknown = at_node(OTHER_REMOTE);

	watch();
	assert_place(0, 0);
	notify(at_node(REMOTE));
	assert_true(bench.routing.forwarding.changed);
	assert_true(forwarding_watch_changed(&bench.routing, &bench.watch));
	assert_place(0, REMOTE);
	notify(at_node(OTHER_REMOTE));
	assert_place(0, OTHER_REMOTE);
	notify(at_port(PORT));
	assert_place(PORT, 0);
	notify(at_port(OTHER_PORT));
	assert_place(OTHER_PORT, 0);
	notify(for_good(at_node(REMOTE)));
	assert_place(0, REMOTE);
	notify(at_port(TUNNEL));
	unknown.known = false;
	unknown.remote_be = 0;
	notify(unknown);
	assert_place(0, 0);
	/* Nothing queries the kernel again. */
	assert_int_equal(queries, ENTRIES);
}

TEST_F(address_is_requested_once_for_all_watchers)
{
	struct forwarding_watch another = {.bridge_link_index = 0};

	kernel[FORWARDING_TUNNEL] = at_node(REMOTE);
	watch();
	assert_place(0, REMOTE);
	forwarding_watch_set(&bench.routing, &another, BRIDGE, TUNNEL, mac);
	assert_int_equal(forwarding_find(&bench.routing, &another).remote_be, REMOTE);
	assert_int_equal(queries, ENTRIES);
	assert_int_equal(bench.routing.forwarding.entries->count, ENTRIES);
	forwarding_watch_set(&bench.routing, &another, 0, 0, nobody);
	notify(at_node(OTHER_REMOTE));
	assert_place(0, OTHER_REMOTE);
}

TEST_F(unwatched_addresses_take_no_memory)
{
	enum { LEARNT = 100000 };

	watch();
	assert_place(0, 0);
	for (uint32_t i = 0; i < LEARNT; i++) {
		struct rtnl_forwarding entry = at_port(PORT);

		memcpy(entry.mac + 2, &i, sizeof(i));
		if (memcmp(entry.mac, mac, sizeof(mac)) != 0)
			notify(entry);
	}
	assert_int_equal(bench.routing.forwarding.entries->count, ENTRIES);
	assert_false(bench.routing.forwarding.changed);
	assert_place(0, 0);
}

TEST_F(lost_notifications_cause_a_query)
{
	watch();
	assert_place(0, 0);
	kernel[FORWARDING_TUNNEL] = at_node(REMOTE);
	forwarding_reread(&bench.routing);
	assert_true(bench.routing.forwarding.changed);
	assert_true(forwarding_watch_changed(&bench.routing, &bench.watch));
	assert_place(0, REMOTE);
	assert_int_equal(queries, 2 * ENTRIES);
}

TEST_F(address_is_unknown_without_an_answer)
{
	kernel_err = -ETIMEDOUT;
	kernel[FORWARDING_TUNNEL] = at_node(REMOTE);
	watch();
	assert_place(0, 0);
	notify(at_node(OTHER_REMOTE));
	assert_place(0, OTHER_REMOTE);
}

/* A notification or an answer with the given attributes. */
static bool parsed(struct ndmsg info, uint32_t master, uint32_t remote_be, uint16_t vlan, uint32_t vni,
		   struct rtnl_forwarding *entry)
{
	char buffer[MNL_NLMSG_HDRLEN + 256];
	struct nlmsghdr *header = mnl_nlmsg_put_header(buffer);

	header->nlmsg_type = RTM_NEWNEIGH;
	*(struct ndmsg *)mnl_nlmsg_put_extra_header(header, sizeof(info)) = info;
	mnl_attr_put(header, NDA_LLADDR, sizeof(mac), mac);
	if (master)
		mnl_attr_put_u32(header, NDA_MASTER, master);
	if (remote_be)
		mnl_attr_put_u32(header, NDA_DST, remote_be);
	if (vlan)
		mnl_attr_put_u16(header, NDA_VLAN, vlan);
	if (vni)
		mnl_attr_put_u32(header, NDA_VNI, vni);
	return rtnl_forwarding_parse(header, entry);
}

#define AT(index, state, flags)                                                                              \
	(struct ndmsg)                                                                                       \
	{                                                                                                    \
		AF_BRIDGE, 0, 0, index, state, flags, 0                                                      \
	}

TEST(irrelevant_entries_are_ignored)
{
	struct rtnl_forwarding entry;

	assert_true(parsed(AT(PORT, NUD_REACHABLE, 0), BRIDGE, 0, 0, 0, &entry));
	assert_true(entry.known && !entry.configured && entry.port_link_index == PORT);
	assert_int_equal(entry.device_link_index, BRIDGE);
	assert_true(parsed(AT(PORT, NUD_NOARP, 0), BRIDGE, 0, 0, 0, &entry));
	assert_true(entry.known && entry.configured);
	assert_true(parsed(AT(PORT, NUD_PERMANENT, 0), BRIDGE, 0, 0, 0, &entry));
	assert_false(entry.known); /* the node's own */
	assert_false(parsed(AT(PORT, NUD_REACHABLE, 0), BRIDGE, 0, 5, 0, &entry));
	assert_false(parsed(AT(PORT, NUD_REACHABLE, 0), 0, 0, 0, 0, &entry));

	assert_true(parsed(AT(TUNNEL, NUD_PERMANENT, NTF_SELF), 0, REMOTE, 0, 0, &entry));
	assert_true(entry.known && entry.configured && entry.remote_be == REMOTE);
	assert_int_equal(entry.device_link_index, TUNNEL);
	assert_true(parsed(AT(TUNNEL, NUD_REACHABLE, NTF_SELF), 0, REMOTE, 0, 43, &entry));
	assert_false(entry.known); /* in another network */
	assert_true(parsed(AT(TUNNEL, NUD_PERMANENT, NTF_SELF), 0, 0, 0, 0, &entry));
	assert_false(entry.known); /* of another kind of device */
}
