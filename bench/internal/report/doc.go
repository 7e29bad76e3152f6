// SPDX-License-Identifier: Apache-2.0

// Package report writes a measurement as one self-contained HTML page: style and drawings are embedded, there is no
// script, and nothing is fetched. It is made for screens and prints on A4.
//
// The samples of all messages (Series) are reduced to boxes and curves (boxes.go, cdf.go), which gonum/plot draws
// (plots.go) and a table below the drawing lists (tables.go). Drawing and table use the same reduction. page.go
// arranges the parts; page.html.tmpl and page.css define their form.
//
// This package neither measures nor judges: verdicts are in the summary. It has no state; calls may run concurrently.
package report
