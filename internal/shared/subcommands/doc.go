// SPDX-License-Identifier: Apache-2.0

// Package subcommands is what ktsn and ktsn-bench have in common: programs whose first word is a command. It has their exit
// statuses, the check of a command's words, and the sentences about a command line that was not understood.
package subcommands
