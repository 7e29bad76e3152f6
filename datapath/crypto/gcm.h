/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AES-128-GCM (NIST SP 800-38D) with libipsec-mb, which has optimized code for each type of processor. The
 * only part of the project that uses that library.
 *
 * Any thread. No function here allocates, blocks or makes a system call, except ktsn_gcm_begin().
 */
#ifndef KTSN_CRYPTO_GCM_H
#define KTSN_CRYPTO_GCM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KTSN_GCM_KEY_BYTES = 16, KTSN_GCM_NONCE_BYTES = 12, KTSN_GCM_TAG_BYTES = 16 };

/* An expanded key. */
struct ktsn_gcm_key;

/* Chooses the code for this processor. Must be called before all other functions; a second call is harmless.
 * 0, or -ENOMEM or -ENOTSUP. */
int ktsn_gcm_begin(void);

/* Size of the memory for a key, which must be aligned to 64. The caller must wipe it before it frees it. */
size_t ktsn_gcm_key_bytes(void);
void ktsn_gcm_key_expand(struct ktsn_gcm_key *key, const uint8_t bytes[KTSN_GCM_KEY_BYTES]);

/* Encrypts text in place. The tag authenticates the text and `aad`, the additional authenticated data. A
 * nonce must never be used twice with a key. */
void ktsn_gcm_seal(const struct ktsn_gcm_key *key, const uint8_t nonce[KTSN_GCM_NONCE_BYTES],
		   const uint8_t *aad, size_t aad_bytes, uint8_t *text, size_t text_bytes,
		   uint8_t tag[KTSN_GCM_TAG_BYTES]);

/* Decrypts text in place. Returns whether the tag was right. */
bool ktsn_gcm_open(const struct ktsn_gcm_key *key, const uint8_t nonce[KTSN_GCM_NONCE_BYTES],
		   const uint8_t *aad, size_t aad_bytes, uint8_t *text, size_t text_bytes,
		   const uint8_t tag[KTSN_GCM_TAG_BYTES]);

#endif
