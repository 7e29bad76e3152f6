/* SPDX-License-Identifier: Apache-2.0 */
#include "associations.h"

#include "commands.h"
#include "routing_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- generations ---- */

/* Maps the file, or anonymous memory for a negative fd. A new file reads as 0. */
static int map(struct generations *generations, int fd)
{
	int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
	void *memory;

	if (fd >= 0 && ftruncate(fd, sizeof(*generations->used)))
		return -errno;
	memory = mmap(NULL, sizeof(*generations->used), PROT_READ | PROT_WRITE, flags, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	generations->used = memory;
	generations->seen = generations->former = (uint32_t)atomic_load(generations->used);
	return 0;
}

/* Opens the file unless it is open. 0 or -errno. */
static int generations_open(struct generations *generations)
{
	int fd, err;

	if (generations->used)
		return 0;
	if (!generations->path)
		return map(generations, -1);
	fd = open(generations->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
	if (fd < 0)
		return -errno;
	err = map(generations, fd);
	close(fd);
	return err;
}

static void generations_close(struct generations *generations)
{
	if (generations->used)
		(void)munmap((void *)generations->used, sizeof(*generations->used));
	generations->used = NULL;
}

/* Returns the highest generation that another ktsnd has used. */
static uint32_t generations_former(struct generations *generations)
{
	uint32_t used = (uint32_t)atomic_load(generations->used);

	if (used != generations->seen)
		generations->former = generations->seen = used;
	return generations->former;
}

/* Whether this ktsnd may use the generation; if so it is marked as used. The file must be open. */
static bool generations_claim(struct generations *generations, uint32_t generation)
{
	uint64_t expected;

	do {
		if (generation <= generations_former(generations))
			return false;
		expected = generations->seen;
		if (generation <= expected)
			return true;
	} while (!atomic_compare_exchange_strong(generations->used, &expected, generation));
	generations->seen = generation;
	return true;
}

/* ---- associations ---- */

enum {
	KEY_ALIGN = 64,
	CHECK_MS = 1000,
	/* Sequence numbers that are left when the next association replaces this one: on any link they last
	 * for seconds. */
	SEQUENCES_LEFT = 1 << 24,
	/* Index of no entry: the list has none that this ktsnd may use. */
	ENTRY_NONE = ASSOCIATIONS_PER_PEER_MAX,
};

/* An association that the loop has, or that it has retired and that is not freed yet. */
struct used_association {
	struct loop_association loop;
	struct used_association *next, **previous_next;
	alignas(KEY_ALIGN) uint8_t key[];
};

/* ---- associations that are used ---- */

static struct used_association *used_make(struct encryption *encryption, uint32_t address_be,
					  const struct association *from)
{
	size_t bytes = sizeof(struct used_association) + ktsn_gcm_key_bytes();
	struct used_association *used =
		aligned_alloc(KEY_ALIGN, (bytes + KEY_ALIGN - 1) / KEY_ALIGN * KEY_ALIGN);

	if (!used)
		return NULL;
	memset(used, 0, bytes);
	used->loop.object = (struct loop_object){.kind = LOOP_ASSOCIATION, .owner = used};
	used->loop.address_be = address_be;
	used->loop.spi = from->spi;
	used->loop.key = (struct ktsn_gcm_key *)used->key;
	ktsn_gcm_key_expand(used->loop.key, from->key);
	memcpy(used->loop.salt, from->key + KTSN_GCM_KEY_BYTES, sizeof(used->loop.salt));
	used->next = encryption->used;
	used->previous_next = &encryption->used;
	if (used->next)
		used->next->previous_next = &used->next;
	encryption->used = used;
	return used;
}

void association_free(void *owner)
{
	struct used_association *used = owner;

	*used->previous_next = used->next;
	if (used->next)
		used->next->previous_next = used->previous_next;
	explicit_bzero(used, sizeof(*used) + ktsn_gcm_key_bytes());
	free(used);
}

/* ---- peers ---- */

static struct associated_peer **peer_at(const struct routing *routing, uint32_t address_be)
{
	struct associated_peer **at = &routing->encryption->peers;

	while (*at && (*at)->address_be != address_be)
		at = &(*at)->next;
	return at;
}

static void peer_free(struct encryption *encryption, struct associated_peer **at)
{
	struct associated_peer *peer = *at;

	*at = peer->next;
	encryption->peer_count--;
	explicit_bzero(peer, sizeof(*peer));
	free(peer);
}

static struct associated_peer *peer_make(struct encryption *encryption, uint32_t address_be)
{
	struct associated_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->address_be = address_be;
	peer->next = encryption->peers;
	encryption->peers = peer;
	encryption->peer_count++;
	return peer;
}

bool association_exists(const struct routing *routing, uint32_t address_be)
{
	return *peer_at(routing, address_be) != NULL;
}

static const struct association *current_of(const struct associated_peer *peer)
{
	return peer ? &peer->list.entries[peer->current] : NULL;
}

/* Passes an association to the loop, which retires the peer's previous one. */
static int peer_use(struct routing *routing, struct associated_peer *peer,
		    const struct association *association)
{
	struct used_association *used = used_make(routing->encryption, peer->address_be, association);

	if (!used)
		return -ENOMEM;
	peer->used = &used->loop;
	loop_command(routing->loop,
		     &(struct loop_command){.type = COMMAND_ASSOCIATION, .association = &used->loop});
	return 0;
}

static int peer_forget(struct routing *routing, struct associated_peer **at)
{
	if (!*at)
		return 0;
	loop_command(routing->loop, &(struct loop_command){.type = COMMAND_ASSOCIATION_NONE,
							   .address_be = (*at)->address_be});
	peer_free(routing->encryption, at);
	return 0;
}

/* ---- choice of an association ---- */

static uint32_t entry_of(const struct association_list *list, uint32_t generation)
{
	uint32_t i = 0;

	while (i < list->count && list->entries[i].generation != generation)
		i++;
	return i < list->count ? i : ENTRY_NONE;
}

/* Returns the first entry above a generation that no other ktsnd has used, and marks it as used. */
static uint32_t entry_claim(struct encryption *encryption, const struct association_list *list,
			    uint32_t above)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->entries[i].generation > above &&
		    generations_claim(&encryption->generations, list->entries[i].generation))
			return i;
	return ENTRY_NONE;
}

static int used_refuse(struct encryption *encryption, const struct association_list *list,
		       const struct association *current, struct refusal *refusal)
{
	uint32_t newest = list->entries[list->count - 1].generation;

	if (current && newest < current->generation)
		return refuse(refusal, "associations",
			      "the newest generation is %u, and %u is in use; give newer ones", newest,
			      current->generation);
	return refuse(
		refusal, "associations",
		"the newest generation is %u, and another ktsnd of this node has used %u; give newer ones",
		newest, generations_former(&encryption->generations));
}

/* Keeps the association in use while it is in the list, and claims a newer one otherwise. */
static int entry_choose(struct encryption *encryption, const struct association_list *list,
			const struct association *current, uint32_t *chosen, struct refusal *refusal)
{
	uint32_t same = current ? entry_of(list, current->generation) : ENTRY_NONE;

	*chosen = same;
	if (same != ENTRY_NONE) {
		const struct association *entry = &list->entries[same];

		if (entry->spi != current->spi || memcmp(entry->key, current->key, sizeof(entry->key)) != 0)
			return refuse(refusal, "associations",
				      "generation %u is in use with another spi or key; give those another "
				      "generation",
				      entry->generation);
		return 0;
	}
	*chosen = entry_claim(encryption, list, current ? current->generation : 0);
	return *chosen == ENTRY_NONE ? used_refuse(encryption, list, current, refusal) : 0;
}

/* ---- requests ---- */

static int request_check(struct routing *routing, uint32_t peer_be, struct refusal *refusal)
{
	struct encryption *encryption = routing->encryption;
	int err = encryption_switched_refuse(routing, "peer", refusal);

	if (err)
		return err;
	if (peer_be == routing->uplink.local_address_be)
		return refuse(refusal, "peer",
			      "this is the local node's own address; give the remote node's");
	if (encryption->peer_count == PEERS_ASSOCIATED_MAX && !*peer_at(routing, peer_be))
		return refuse(
			refusal, "peer",
			"%d nodes have associations already; take those of one first, with an empty list",
			PEERS_ASSOCIATED_MAX);
	if (ktsn_gcm_begin())
		return refuse(refusal, "associations", "this processor has no AES-GCM that ktsnd can use");
	err = generations_open(&encryption->generations);
	return err ? refuse(refusal, "associations",
			    "%s: %s; without that file an association could be used twice",
			    encryption->generations.path, strerror(-err))
		   : 0;
}

int associations_set(struct routing *routing, uint32_t peer_be, const struct association_list *list,
		     struct refusal *refusal)
{
	struct associated_peer **at = peer_at(routing, peer_be), *peer = *at;
	const struct association *current = current_of(peer);
	uint32_t chosen = ENTRY_NONE;
	int err;

	if (!list->count)
		return peer_forget(routing, at);
	err = request_check(routing, peer_be, refusal);
	if (!err)
		err = entry_choose(routing->encryption, list, current, &chosen, refusal);
	if (err)
		return err;
	if (!peer)
		peer = peer_make(routing->encryption, peer_be);
	if (!peer)
		return -ENOMEM;
	if (!current || list->entries[chosen].generation != current->generation)
		err = peer_use(routing, peer, &list->entries[chosen]);
	if (err) {
		if (!current)
			peer_free(routing->encryption, peer_at(routing, peer_be));
		return err;
	}
	explicit_bzero(&peer->list, sizeof(peer->list));
	peer->list = *list;
	peer->current = chosen;
	return 0;
}

struct association_state association_state_of(const struct associated_peer *peer)
{
	const struct association *current = &peer->list.entries[peer->current];

	return (struct association_state){
		.peer_be = peer->address_be,
		.spi = current->spi,
		.generation = current->generation,
		.sequence = atomic_load_explicit(&peer->used->sequence, memory_order_relaxed),
		.left = peer->list.count - peer->current - 1,
	};
}

uint32_t associations_used_generation(const struct routing *routing)
{
	struct generations *generations = &routing->encryption->generations;

	return generations_open(generations) ? 0 : (uint32_t)atomic_load(generations->used);
}

/* ---- exhausted sequence numbers ---- */

static void peer_advance(struct routing *routing, struct associated_peer *peer)
{
	uint32_t next = entry_claim(routing->encryption, &peer->list, current_of(peer)->generation);

	if (next != ENTRY_NONE && peer_use(routing, peer, &peer->list.entries[next]) == 0)
		peer->current = next;
}

int associations_tick(struct routing *routing)
{
	struct encryption *encryption = routing->encryption;

	if (!encryption->peers)
		return -1;
	for (struct associated_peer *peer = encryption->peers; peer; peer = peer->next)
		if (atomic_load_explicit(&peer->used->sequence, memory_order_relaxed) >=
		    UINT32_MAX - SEQUENCES_LEFT)
			peer_advance(routing, peer);
	return CHECK_MS;
}

/* ---- set-up and tear-down ---- */

void associations_generations_path_set(struct routing *routing, const char *path)
{
	routing->encryption->generations.path = path;
}

void associations_fini(struct routing *routing)
{
	struct encryption *encryption = routing->encryption;

	if (!encryption)
		return;
	while (encryption->peers)
		peer_free(encryption, &encryption->peers);
	for (struct used_association *used = encryption->used, *next; used; used = next) {
		next = used->next;
		association_free(used);
	}
	generations_close(&encryption->generations);
}
