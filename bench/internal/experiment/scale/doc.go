// SPDX-License-Identifier: Apache-2.0

// Package scale is the experiment of what many flows and many pods cost the ktsnd of a node: processor time, memory, and how
// exactly it keeps times, from one flow to a thousand and from one pod to a hundred.
package scale
