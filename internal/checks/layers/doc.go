// SPDX-License-Identifier: Apache-2.0

// Package layers holds the tests that compare the pictures of modules and groups in docs/architecture.md with what the sources
// include and import, and that find C files that include each other in a circle.
package layers
