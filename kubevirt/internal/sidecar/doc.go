// SPDX-License-Identifier: Apache-2.0

// Package sidecar is ktsn-kubevirt, a container beside each virtual machine of KubeVirt that is on a network:
//
//	virt-launcher ── OnDefineDomain(instance, domain) ──► Server ► Definer ► machine: what is asked for
//	                                                                  ├────► pod: what tsn-cni has made
//	              ◄── the domain with its network devices ────────────┴────► domain: the edited XML
//	QEMU, virtio port org.kubernetsn.clock ◄── the node's time ── hosttime.ServeAt
//
// It has no privilege: it reads the pod's interfaces, and the clock.
package sidecar
