/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a request was refused: the field, and a sentence that says what was wrong and what to do. Any
 * thread.
 */
#ifndef KTSN_SYS_REFUSAL_H
#define KTSN_SYS_REFUSAL_H

enum { REFUSAL_FIELD_CHARACTERS = 127 };

struct refusal {
	char field[REFUSAL_FIELD_CHARACTERS + 1]; /* its path; "" when no single field is at fault */
	char message[384];
};

/* Fills it in and returns -EINVAL. */
__attribute__((format(printf, 3, 4))) int refuse(struct refusal *refusal, const char *field,
						 const char *format, ...);

#endif
