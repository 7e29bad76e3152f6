// SPDX-License-Identifier: Apache-2.0

// Package network sets up a pod's network as Kata Containers 3 (runtime-rs, crates/resource/src/network) does:
//
//   - Redirect creates a tap for each interface of the pod's network namespace, and has the kernel redirect between both
//     (internetworking_model tcfilter).
//   - ReadDevices reads the file of the directly attachable network. It lists all devices.
//
// Both return the taps that QEMU opens, and the configuration of the machine's interfaces.
package network
