// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of ktsn-cluster.
package cli
