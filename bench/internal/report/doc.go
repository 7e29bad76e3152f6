// SPDX-License-Identifier: Apache-2.0

// Package report writes a measurement as one page of HTML that needs nothing else: style and drawings are
// inside, there is no script, and nothing is fetched. It reads best on a screen and prints on A4.
//
// The way of a number: samples of all messages (Series) are reduced to what a box or a curve shows (boxes.go,
// cdf.go), which is drawn by gonum/plot (plots.go) and written below the drawing as a table (tables.go). Both
// come from the same reduction, so they cannot differ. page.go puts the parts in order, page.html.tmpl and
// page.css are how they look.
//
// Nothing here measures or judges: verdicts are the summary's. No state is kept; calls may run at the same
// time.
package report
