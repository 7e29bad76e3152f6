/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AES-128-GCM (NIST SP 800-38D) by libipsec-mb, with the code that is the fastest on this processor. The only
 * part of the project that knows that library.
 *
 * Any thread; nothing here allocates, blocks or makes a system call, but for ktsn_gcm_begin().
 */
#ifndef KTSN_CRYPTO_GCM_H
#define KTSN_CRYPTO_GCM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KTSN_GCM_KEY_BYTES = 16, KTSN_GCM_NONCE_BYTES = 12, KTSN_GCM_TAG_BYTES = 16 };

/* A key, expanded. */
struct ktsn_gcm_key;

/* Chooses the code. Before all else here, once; again is harmless. 0, or -ENOMEM or -ENOTSUP. */
int ktsn_gcm_begin(void);

/* Of the memory of a key, to be aligned to 64. Whoever frees it wipes it. */
size_t ktsn_gcm_key_bytes(void);
void ktsn_gcm_key_expand(struct ktsn_gcm_key *key, const uint8_t bytes[KTSN_GCM_KEY_BYTES]);

/* Encrypts text in place; the tag is of that and of `aad`, the additional authenticated data. A nonce must
 * never come twice with a key. */
void ktsn_gcm_seal(const struct ktsn_gcm_key *key, const uint8_t nonce[KTSN_GCM_NONCE_BYTES],
		   const uint8_t *aad, size_t aad_bytes, uint8_t *text, size_t text_bytes,
		   uint8_t tag[KTSN_GCM_TAG_BYTES]);

/* Decrypts it in place. Whether the tag was right. */
bool ktsn_gcm_open(const struct ktsn_gcm_key *key, const uint8_t nonce[KTSN_GCM_NONCE_BYTES],
		   const uint8_t *aad, size_t aad_bytes, uint8_t *text, size_t text_bytes,
		   const uint8_t tag[KTSN_GCM_TAG_BYTES]);

#endif
