/* SPDX-License-Identifier: Apache-2.0 */
#include "control_encryption.h"

#include "control_json.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

int control_encryption_read(const json_t *value, enum loop_encryption *encryption, struct refusal *refusal)
{
	const struct control_place place = {.name = "encryption", .value = value};

	for (int i = 0; json_is_string(value) && i < LOOP_ENCRYPTIONS; i++) {
		if (strcmp(loop_encryption_names[i], json_string_value(value)) == 0) {
			*encryption = (enum loop_encryption)i;
			return 0;
		}
	}
	return control_refuse_value(refusal, &place, "none, preferred or required");
}

static int nibble(char digit)
{
	return isdigit((unsigned char)digit) ? digit - '0' : tolower((unsigned char)digit) - 'a' + 10;
}

/* The message does not repeat the key. */
static int key_read(const struct control_place *place, uint8_t key[ASSOCIATION_KEY_BYTES],
		    struct refusal *refusal)
{
	const char *text = json_string_value(place->value);
	bool good = text && json_string_length(place->value) == 2 * ASSOCIATION_KEY_BYTES;

	for (size_t i = 0; good && i < 2 * ASSOCIATION_KEY_BYTES; i++)
		good = isxdigit((unsigned char)text[i]);
	if (!good)
		return control_refuse(refusal, place,
				      "must be a string of %d hexadecimal digits: 16 bytes of the key, 4 of "
				      "the salt",
				      2 * ASSOCIATION_KEY_BYTES);
	for (size_t i = 0; i < ASSOCIATION_KEY_BYTES; i++)
		key[i] = (uint8_t)(nibble(text[2 * i]) << 4 | nibble(text[2 * i + 1]));
	return 0;
}

static int association_read(const struct control_place *place, struct association *association,
			    struct refusal *refusal)
{
	struct control_place key;
	int64_t spi = 0, generation = 0;
	int err = control_object_check(place, "spi, key, generation", refusal);

	if (!err)
		err = control_member_integer(place, "spi", ASSOCIATION_SPI_MIN, UINT32_MAX, &spi, refusal);
	if (!err)
		err = control_member_integer(place, "generation", 1, UINT32_MAX, &generation, refusal);
	if (!err)
		err = control_member(place, "key", &key, refusal);
	association->spi = (uint32_t)spi;
	association->generation = (uint32_t)generation;
	return err ? err : key_read(&key, association->key, refusal);
}

/* A repeated key or SPI would repeat a nonce. */
static int order_check(const struct control_place *place, const struct association_list *list, uint32_t at,
		       struct refusal *refusal)
{
	const struct association *last = &list->entries[at];

	if (at && last->generation <= list->entries[at - 1].generation)
		return control_refuse(refusal, place,
				      "generation %u comes after %u; give them in ascending order",
				      last->generation, list->entries[at - 1].generation);
	for (uint32_t i = 0; i < at; i++) {
		if (list->entries[i].spi == last->spi)
			return control_refuse(refusal, place, "has the spi %u of entry %u; give each its own",
					      last->spi, i);
		if (memcmp(list->entries[i].key, last->key, sizeof(last->key)) == 0)
			return control_refuse(refusal, place, "has the key of entry %u; give each its own",
					      i);
	}
	return 0;
}

int control_associations_read(const json_t *value, struct association_list *list, struct refusal *refusal)
{
	const struct control_place place = {.name = "associations", .value = value};
	int err = control_list_check(&place, 0, ASSOCIATIONS_PER_PEER_MAX, refusal);

	list->count = err ? 0 : (uint32_t)json_array_size(value);
	for (uint32_t i = 0; i < list->count && !err; i++) {
		const struct control_place entry = control_entry(&place, i);

		err = association_read(&entry, &list->entries[i], refusal);
		if (!err)
			err = order_check(&entry, list, i, refusal);
	}
	return err;
}

json_t *control_network_encryption_json(const struct network_encryption *network)
{
	json_t *object = json_object();

	reply_int(object, "vni", network->vni);
	reply_string(object, "encryption", loop_encryption_names[network->encryption]);
	return object;
}

json_t *control_association_json(const struct association_state *state)
{
	json_t *object = json_object();
	char peer[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &state->peer_be, peer, sizeof(peer));
	reply_string(object, "peer", peer);
	reply_int(object, "spi", state->spi);
	reply_int(object, "generation", state->generation);
	reply_int(object, "sequence", state->sequence);
	reply_int(object, "associations-left", state->left);
	return object;
}

static void wiping_free(void *memory)
{
	if (memory)
		explicit_bzero(memory, malloc_usable_size(memory));
	free(memory);
}

void control_json_wipe(void)
{
	json_set_alloc_funcs(malloc, wiping_free);
}
