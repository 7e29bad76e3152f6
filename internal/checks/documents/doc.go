// SPDX-License-Identifier: Apache-2.0

// Package documents holds the test that compares the Markdown pages with the tree: links, files and folders that pages
// name, and the width of lines.
package documents
