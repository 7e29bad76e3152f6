// SPDX-License-Identifier: Apache-2.0

// Package inside tests the chart's ktsnd and agent on a node with cgroups of version 2: a kubelet without a control plane
// starts them as the rendered chart describes them, and two pods beside them, whose network tsn-cni makes and whose volumes
// the agent publishes. The tests build upon each other, in the order of their files. They run in the virtual machine of
// package guest only, as its first user.
package inside
