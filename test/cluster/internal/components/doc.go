// SPDX-License-Identifier: Apache-2.0

// Package components builds the programs and images that a cluster is made of, from the Go modules in
// test/cluster/components (one for each project, because their dependencies differ) and from files of Debian
// packages.
//
// What was built is kept in the cache, in folders named after all that it depends on. A folder is complete when
// it is there: it is written under another name first.
package components
