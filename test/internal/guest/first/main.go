// SPDX-License-Identifier: Apache-2.0

// Command first is the first process of a virtual machine; see package guest.
package main

import "github.com/kubernetsn/kubernetsn/test/internal/guest"

func main() { guest.Main() }
