// SPDX-License-Identifier: Apache-2.0

// Package kata writes the files by which Kata's runtime attaches network devices to the virtual machine of a pod without looking into
// the pod's network namespace: its directly attachable network. The form is that of Kata Containers 3 in Rust (runtime-rs,
// crates/resource/src/network/dan.rs), which reads host-tap and vhost-user; vfio it reads with pull request 13802, which was open in
// September 2026. Kata in Go (virtcontainers/types/dan.go) reads files of this form that have vfio alone. The runtime looks for a file in
// the folder dan_conf of its configuration, named by the sandbox; where it finds one, the machine has the devices of the file and no
// others.
package kata
