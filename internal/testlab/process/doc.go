// SPDX-License-Identifier: Apache-2.0

// Package process runs the programs that a measurement is made of: it keeps what they say, ends them in
// order, and reads how much processor time they took.
package process
