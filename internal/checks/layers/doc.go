// SPDX-License-Identifier: Apache-2.0

// Package layers holds the test that compares the imports of the Go packages with the drawing in docs/architecture.md.
package layers
