// SPDX-License-Identifier: Apache-2.0

// Package preload knows what must be so for libktsn to be of use to a program: LD_PRELOAD reaches it, and a
// ktsnd of the same release answers on the application socket. What is not so is said in one sentence.
package preload
