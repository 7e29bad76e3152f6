// SPDX-License-Identifier: Apache-2.0

// Package journal tells what happened at the hub, and what changes there, with the rights of whoever asks.
package journal
