// SPDX-License-Identifier: Apache-2.0

// Package passthrough hands a network card from the kernel to a program in user space (ktsnd --device) or to a virtual machine, and
// back, through the kernel's VFIO.
//
//	card ► driver of the kernel ► interface     Unbind
//	card ► vfio-pci ► IOMMU group ► /dev/vfio/N Bind
//
// Bus.Check rejects cards that cannot be handed over or that connect the node, before anything is changed. Sources:
// Documentation/ABI/testing/sysfs-bus-pci (driver_override) and Documentation/driver-api/vfio.rst of the kernel.
package passthrough
