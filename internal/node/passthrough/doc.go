// SPDX-License-Identifier: Apache-2.0

// Package passthrough gives a network card from the kernel to a program in user space, or to a virtual machine, and back, by the
// kernel's VFIO: ktsnd drives it then (--device), or a guest.
//
//	card ► driver of the kernel ► interface     Unbind
//	card ► vfio-pci ► IOMMU group ► /dev/vfio/N Bind
//
// What cannot work, or would cut the node off from its network, is refused before anything is changed (Bus.Check). Sources:
// Documentation/ABI/testing/sysfs-bus-pci (driver_override) and Documentation/driver-api/vfio.rst of the kernel.
package passthrough
