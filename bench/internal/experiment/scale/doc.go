// SPDX-License-Identifier: Apache-2.0

// Package scale is the experiment on the cost of many flows and pods for a node's ktsnd: processor time, memory, and
// the accuracy of departures, from one flow to a thousand and from one pod to a hundred.
package scale
