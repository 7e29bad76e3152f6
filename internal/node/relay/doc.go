// SPDX-License-Identifier: Apache-2.0

// Package relay runs a ktsn-relay (datapath/relay) for each captured interface of the node's pods. It makes what the
// relay works with and has no right to make itself, and holds it while the relay is away, so that a relay which is
// started again finds the frames that came meanwhile:
//
//	tap             the device to which captured frames are redirected; they wait in it
//	packet socket   of the pod's network namespace, by which ktsnd knows whose frames the relay sends
//	counters        memory that outlives the relay
//
// All of it ends with this process, and so do the relays, whom the kernel kills with the thread that started them.
//
// Threads: Run does everything in its own goroutine, which must not change its network namespace; the other methods may
// be called from any.
package relay
