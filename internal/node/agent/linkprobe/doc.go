// SPDX-License-Identifier: Apache-2.0

// Package linkprobe asks, from inside pods, whether the other ends of their links answer, and how large packets over a link can be. It
// sends echo requests of ICMP that may not be divided, by a socket in the pod's network namespace, and nothing in the pod takes part.
//
// A link that is not known to be up is asked every 100 ms, one that is every two seconds. A thousand links then cost about a thousand
// system calls a second: there is one goroutine for all, which reads what has come when it is to send again.
package linkprobe
