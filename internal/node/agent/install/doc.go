// SPDX-License-Identifier: Apache-2.0

// Package install installs files on the node: the network plugin, libktsn.so, and the configuration of each network for
// Multus. It replaces files atomically and does not touch unchanged ones.
//
// Installed files are recorded on the node with the SHA-256 of their content. So a removal, by any program, only
// removes installed files and not another file of the same name.
package install
