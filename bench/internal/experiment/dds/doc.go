// SPDX-License-Identifier: Apache-2.0

// Package dds is the experiment of Kang, DDS in Multi-platform Kubernetes (the DDS Foundation's guidebook, use case 6), with
// Cyclone DDS and its ddsperf in the place of Connext DDS and PerfTest: what networks of pods cost publish and subscribe.
//
// The paper's framework is a deployer (here packages netnstestbed and clustertarget, which make networks and pods), test pods, a monitor (what
// processes, nodes and pods used), and a manager (package engine with this experiment: profile, commands, progress, results).
// The paper's experiments are parts here: overhead (its 2, with table 1), best-effort (3), subscribers (4), security (5). Its 1,
// a container beside none, needs programs on nodes, which neither target has.
package dds
