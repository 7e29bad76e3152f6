// SPDX-License-Identifier: Apache-2.0

// Package shim is a runtime of containerd (runtime v2) that stands in for Kata Containers 3 where that cannot run: in a test cluster
// without KVM, vsock and Kata's guest agent. A pod has one process of it and one machine:
//
//	RunPodSandbox    ► plugins ► Create of the sandbox: network, QEMU, agent ► the machine is there
//	CreateContainer  ► the root is mounted where the machine sees it
//	StartContainer   ► the agent runs the command; what it writes and its exit status are the container's
//	StopPodSandbox   ► QEMU ends; taps and redirections are removed ► plugins
//
// Real are what meets a network: order of plugins and runtime, what is done in the pod's network namespace, the file of the directly
// attachable network, and that the programs of the pod are in a machine with a kernel of its own. Not there are all that the containers'
// isolation consists of (package agent), volumes, files such as /etc/hosts, standard input, terminals, cgroups (QEMU is in containerd's),
// and metrics.
package shim
