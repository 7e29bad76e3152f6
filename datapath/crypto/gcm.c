/* SPDX-License-Identifier: Apache-2.0 */
#include "gcm.h"

#include <assert.h>
#include <errno.h>
#include <intel-ipsec-mb.h>

struct ktsn_gcm_key {
	struct gcm_key_data data;
};

static_assert(KTSN_GCM_TAG_BYTES == IMB_MAX_TAG_LEN && KTSN_GCM_NONCE_BYTES == IMB_GCM_IV_DATA_LEN &&
		      KTSN_GCM_KEY_BYTES == IMB_GCM_128_KEY_LEN,
	      "AES-128-GCM with a whole tag");

/* Holds the functions for this processor. They are chosen once and keep no state between calls. */
static IMB_MGR *manager;

/* Uses no emulation of the AES instructions: it is slow, and no machine of the last decade needs it. */
int ktsn_gcm_begin(void)
{
	if (manager)
		return 0;
	manager = alloc_mb_mgr(0);
	if (!manager)
		return -ENOMEM;
	init_mb_mgr_auto(manager, NULL);
	if (imb_get_errno(manager) == 0)
		return 0;
	free_mb_mgr(manager);
	manager = NULL;
	return -ENOTSUP;
}

size_t ktsn_gcm_key_bytes(void)
{
	return sizeof(struct ktsn_gcm_key);
}

void ktsn_gcm_key_expand(struct ktsn_gcm_key *key, const uint8_t bytes[KTSN_GCM_KEY_BYTES])
{
	IMB_AES128_GCM_PRE(manager, bytes, &key->data);
}

void ktsn_gcm_seal(const struct ktsn_gcm_key *key, const uint8_t nonce[KTSN_GCM_NONCE_BYTES],
		   const uint8_t *aad, size_t aad_bytes, uint8_t *text, size_t text_bytes,
		   uint8_t tag[KTSN_GCM_TAG_BYTES])
{
	struct gcm_context_data context;

	IMB_AES128_GCM_ENC(manager, &key->data, &context, text, text, text_bytes, nonce, aad, aad_bytes, tag,
			   KTSN_GCM_TAG_BYTES);
}

bool ktsn_gcm_open(const struct ktsn_gcm_key *key, const uint8_t nonce[KTSN_GCM_NONCE_BYTES],
		   const uint8_t *aad, size_t aad_bytes, uint8_t *text, size_t text_bytes,
		   const uint8_t tag[KTSN_GCM_TAG_BYTES])
{
	uint8_t computed[KTSN_GCM_TAG_BYTES], different = 0;
	struct gcm_context_data context;

	IMB_AES128_GCM_DEC(manager, &key->data, &context, text, text, text_bytes, nonce, aad, aad_bytes,
			   computed, KTSN_GCM_TAG_BYTES);
	/* In constant time, so that the time does not reveal where they differ. */
	for (int i = 0; i < KTSN_GCM_TAG_BYTES; i++)
		different |= computed[i] ^ tag[i];
	return !different;
}
