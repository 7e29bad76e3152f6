// SPDX-License-Identifier: Apache-2.0

// Package vm tests what has to do with virtual machines and with cards that are given to them, in machines that QEMU emulates.
package vm
