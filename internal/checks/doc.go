// SPDX-License-Identifier: Apache-2.0

// Package checks holds tests that compare parts of the tree with each other:
//
//   - documents: links, files, folders and names in the Markdown pages exist, and prose is wrapped.
//   - layers: C includes and Go imports are those of the pictures in docs/architecture.md, and C files do not include each other
//     in a circle.
//   - manpages: docs/man and the programs' --help have the same options, with the same defaults.
//   - suites: each test is run by a target of the Makefile (scripts/suites, datapath's meson.build).
package checks
