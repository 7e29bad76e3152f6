// SPDX-License-Identifier: Apache-2.0

// Package relay runs a ktsn-relay (datapath/relay) for each captured interface of the node's pods. It creates the resources
// that the unprivileged relay needs, and keeps them across restarts of the relay, so that no queued frame is lost:
//
//	tap             the device to which captured frames are redirected, and in which they are queued
//	packet socket   in the pod's network namespace; identifies the pod to ktsnd
//	counters        shared memory that outlives the relay
//
// The resources end with this process. So do the relays: the kernel kills them with the thread that started them.
//
// Threads: Run does everything in its own goroutine, which must not change its network namespace; the other methods are safe
// for concurrent use.
package relay
