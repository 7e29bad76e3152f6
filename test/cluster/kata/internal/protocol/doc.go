// SPDX-License-Identifier: Apache-2.0

// Package protocol has the messages between a machine's agent and its runtime over a virtio port: JSON objects, one a
// line. The runtime sends requests, and the agent replies with the request's number. The agent sends output and exit
// statuses of processes unasked.
package protocol
