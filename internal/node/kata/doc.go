// SPDX-License-Identifier: Apache-2.0

// Package kata writes the files by which Kata's runtime attaches network devices to the virtual machine of a pod without looking into
// the pod's network namespace: its directly attachable network. The form is that of Kata Containers 3 (runtime-rs,
// crates/resource/src/network/dan.rs), which the runtime in Go reads as well. The runtime looks for a file in the folder dan_conf of
// its configuration, named by the sandbox; where it finds one, the machine has the devices of the file and no others.
package kata
