// SPDX-License-Identifier: Apache-2.0

// Command containerd-shim-ktsnkata-v2 stands in for Kata's containerd-shim-kata-v2 in the test cluster; see package shim.
package main

import "github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/shim"

func main() { shim.Main() }
