// SPDX-License-Identifier: Apache-2.0

// Package cli implements the command line of ktsn: options, checks and output of each command.
package cli
