// SPDX-License-Identifier: Apache-2.0

// Package inside tests the chart's ktsnd and agent on a node with cgroups of version 2. A kubelet without a control
// plane starts them from the rendered chart, and two pods next to them, whose network tsn-cni sets up and whose volumes
// the agent publishes. The tests build on each other, in the order of their files. They run only in the virtual machine
// of package guest, as its first program.
package inside
