// SPDX-License-Identifier: Apache-2.0

// Package machine reads what a virtual machine instance of KubeVirt says of its interfaces on networks of KuberneTSN. It knows
// neither libvirt nor the pod.
package machine
