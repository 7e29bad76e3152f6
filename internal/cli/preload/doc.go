// SPDX-License-Identifier: Apache-2.0

// Package preload checks the requirements of libktsn: LD_PRELOAD must reach the program, and a ktsnd of the same release must answer on the
// application socket.
package preload
