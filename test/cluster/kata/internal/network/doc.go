// SPDX-License-Identifier: Apache-2.0

// Package network does with a pod's network what Kata Containers 3 (runtime-rs, crates/resource/src/network) does:
//
//   - Redirect looks into the pod's network namespace. For each interface it makes a tap, and has the kernel redirect between both
//     (internetworking_model tcfilter).
//   - ReadDevices reads the file of the directly attachable network. The devices in it are all that there are.
//
// Both say which taps QEMU opens, and how the machine sets up the interfaces behind them.
package network
