// SPDX-License-Identifier: Apache-2.0

// Package results is the form in which measurements are kept: summary.json, and one CSV line a message.
// The demo and every bench write the same, so that one reader understands all.
package results
