/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmocka, with the headers that its own needs before it. Included last.
 */
#ifndef KTSN_UNIT_TEST_H
#define KTSN_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
