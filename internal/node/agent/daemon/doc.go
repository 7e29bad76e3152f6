// SPDX-License-Identifier: Apache-2.0

// Package daemon is the agent's side of ktsnd: connections for whoever wants to tell it something, and the resync, which
// tells a ktsnd that was started anew of all that the one before knew.
package daemon
