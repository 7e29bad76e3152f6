// SPDX-License-Identifier: Apache-2.0

// Package install puts onto the node what others start or read there: the network plugin, libktsn.so, and the
// configuration of each network for Multus. Each file is replaced at once, so that there is the old one or the new one,
// whole; one that is as it should be is not touched.
//
// What was put onto the node is written down there with the SHA-256 of its content. So what is removed again, by
// whoever, is what was installed and not somebody else's file of the same name.
package install
