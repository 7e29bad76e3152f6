// SPDX-License-Identifier: Apache-2.0

// Package top tells what happened between two looks at a running ktsnd: rates of each pod and flow, and how exactly
// messages left. It draws nothing on a terminal by itself and keeps no time of its own.
package top
