// SPDX-License-Identifier: Apache-2.0

// Package cni_test runs tsn-cni as container runtimes do, through libcni, on nodes made of network namespaces,
// with the ktsnd and the reference plugins that were built. It needs root.
package cni_test
