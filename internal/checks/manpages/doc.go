// SPDX-License-Identifier: Apache-2.0

// Package manpages holds the tests that keep the manual pages of docs/man true: they know the options that each
// program's --help knows, with the same defaults, and nothing else.
package manpages
