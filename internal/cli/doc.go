// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of ktsn: what each command accepts, checks and says. The work is done in
// the packages it calls.
package cli
