// SPDX-License-Identifier: Apache-2.0

// Package layers holds the test that compares the pictures of modules and groups in docs/architecture.md with what the sources
// include and import.
package layers
