// SPDX-License-Identifier: Apache-2.0

// Package dds is the experiment of Kang, DDS in Multi-platform Kubernetes (the DDS Foundation's guidebook, use case 6),
// with Cyclone DDS and its ddsperf instead of Connext DDS and PerfTest: the cost of pod networks for publish and
// subscribe.
//
// The paper's framework consists of a deployer (here packages netnstestbed and clustertarget, which create networks and
// pods), test pods, a monitor (usage of processes, nodes and pods), and a manager (package engine with this experiment:
// profile, commands, progress, results). The paper's experiments are parts here: overhead (its 2, with table 1),
// best-effort (3), subscribers (4), security (5). Its experiment 1, with and without a container, needs programs on
// nodes, which neither target has.
package dds
