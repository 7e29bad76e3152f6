// SPDX-License-Identifier: Apache-2.0

// Package shim is a containerd runtime (runtime v2) that replaces Kata Containers 3 where those cannot run: in a test
// cluster without KVM, vsock and Kata's guest agent. A pod has one shim process and one machine:
//
//	RunPodSandbox    ► plugins ► Create of the sandbox: network, QEMU, agent ► the machine runs
//	CreateContainer  ► the root is mounted where the machine sees it
//	StartContainer   ► the agent runs the command; its output and exit status are the container's
//	StopPodSandbox   ► QEMU ends; taps and redirections are removed ► plugins
//
// Everything about the network is as with Kata: the order of plugins and runtime, the changes in the pod's network
// namespace, the file of the directly attachable network, and that the pod's programs run in a machine with its own
// kernel. Not implemented are the isolation of containers (package agent), volumes, files such as /etc/hosts, standard
// input, terminals, cgroups (QEMU is in containerd's), and metrics.
package shim
