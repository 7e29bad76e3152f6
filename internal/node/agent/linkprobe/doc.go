// SPDX-License-Identifier: Apache-2.0

// Package linkprobe finds out from inside pods whether the other ends of their links answer, and which packet sizes the
// links carry. It sends ICMP echo requests with "don't fragment" through a socket in the pod's network namespace; no
// program of the pod takes part.
//
// A link that is not up is probed every 100 ms, a link that is up every two seconds. A thousand links then cost about a
// thousand system calls a second: a single goroutine reads the answers when it sends the next requests.
package linkprobe
