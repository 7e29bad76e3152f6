// SPDX-License-Identifier: Apache-2.0

// Package ping builds the command lines of iputils' ping for measurements of latency, and parses its output. It starts
// no program.
package ping
