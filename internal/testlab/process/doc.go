// SPDX-License-Identifier: Apache-2.0

// Package process runs the programs of a measurement: it keeps their error output, ends them in order, and reads their
// processor time.
package process
