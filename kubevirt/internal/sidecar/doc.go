// SPDX-License-Identifier: Apache-2.0

// Package sidecar is ktsn-kubevirt, a container next to each virtual machine of KubeVirt that is on a network:
//
//	virt-launcher ── OnDefineDomain(instance, domain) ──► Server ► Definer ► machine: the requested interfaces
//	                                                                  ├────► pod: the devices that tsn-cni created
//	              ◄── the domain with its network devices ────────────┴────► domain: the edited XML
//	QEMU, virtio port org.kubernetsn.clock ◄── the node's time ── hosttime.ServeAt
//
// It needs no privilege: it reads the pod's interfaces and the clock.
package sidecar
