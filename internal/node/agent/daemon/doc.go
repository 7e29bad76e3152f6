// SPDX-License-Identifier: Apache-2.0

// Package daemon connects the agent to ktsnd and restores the state of a restarted ktsnd.
package daemon
