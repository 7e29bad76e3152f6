// SPDX-License-Identifier: Apache-2.0

// Package protocol is what a machine's agent and its runtime say to each other over a virtio port: JSON objects, one a line. The runtime
// asks, and the agent answers by the request's number. What processes write and how they end the agent says by itself.
package protocol
