// SPDX-License-Identifier: Apache-2.0

// Command ktsn-test-kata-agent is the first process of the machine of a pod, in which it stands in for Kata's agent; see package agent.
package main

import "github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/agent"

func main() { agent.Main() }
