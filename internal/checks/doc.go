// SPDX-License-Identifier: Apache-2.0

// Package checks holds tests that compare parts of the tree with each other:
//
//   - control: docs/internals/control-protocol.md has a row for each request of ktsnd's control socket, and docs/reference/tsn-cni.md for
//     each error code.
//   - counters: docs/reference/counters.md has a row for each counter of ktsnd.
//   - documents: links, files, folders and names in the Markdown pages exist, and prose is wrapped.
//   - limits: pages quote the limits that the code has, and libktsn(7) names the exports of libktsn.so.
//   - layers: C includes and Go imports are those of the pictures in docs/internals/map.md, and C files do not include each other
//     in a circle.
//   - manpages: docs/reference/man and the programs' --help have the same options, with the same defaults, and SYNOPSIS of ktsn(1) has all
//     commands.
//   - parts: the doc.go of the agent and of the operator list their parts, and docs/internals/map.md the fields of a TSNNetwork.
//   - reference: docs/reference/api/names.md has each condition type, reason, annotation and label of the code.
//   - suites: each test is run by a target of the Makefile (scripts/suites, datapath's meson.build).
//   - values: the schemas of the charts have the keys of their values, and each value has a description.
package checks
