// SPDX-License-Identifier: Apache-2.0

//go:build !ktsn_faults

package fault

// Point does nothing.
func Point(string) {}
