// SPDX-License-Identifier: Apache-2.0

// Package inside tests the chart's ktsnd on a node with cgroups of version 2: a kubelet without a control plane starts
// it as the rendered chart describes it, and two pods on the network of tsn-cni beside it. The tests build upon each
// other, in the order of their files. They run in the virtual machine of package guest only, as its first user.
package inside
