// SPDX-License-Identifier: Apache-2.0

// Package components builds the programs and images of a cluster, from the Go modules in test/cluster/components (one
// for each project, because their dependencies differ) and from files of Debian packages.
//
// The cache keeps the results in folders named after everything that they depend on. A folder that exists is complete:
// it is written under another name first.
package components
