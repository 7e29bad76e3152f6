// SPDX-License-Identifier: Apache-2.0

// Package machine reads the interfaces of a virtual machine instance of KubeVirt on networks of KuberneTSN. It knows
// neither libvirt nor the pod.
package machine
