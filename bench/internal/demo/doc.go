// SPDX-License-Identifier: Apache-2.0

// Package demo compares KuberneTSN with the kernel's own paths on one machine, as a first impression. It is a bench
// (package engine) in network namespaces (package netnstarget) with a profile from a few options; it prints the figures
// as tables and compares them with the project's targets.
package demo
