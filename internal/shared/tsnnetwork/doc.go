// SPDX-License-Identifier: Apache-2.0

// Package tsnnetwork says what a TSNNetwork and a pod's annotations mean, to all who must agree about it: operator,
// webhook, agent and command line.
package tsnnetwork
