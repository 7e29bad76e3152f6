// SPDX-License-Identifier: Apache-2.0

// Package top compares two samples of a running ktsnd: rates of each pod and flow, and the departure errors of messages. It neither draws
// on a terminal nor keeps time.
package top
