// SPDX-License-Identifier: Apache-2.0

// Package demo measures KuberneTSN beside the kernel's own paths on one machine, for who sees it for the first time: a
// bench (package engine) of network namespaces (package netnstarget) with a profile made of a few options, whose figures are
// printed as tables and compared with what the project wants to reach.
package demo
