// SPDX-License-Identifier: Apache-2.0

// Package inspect finds the programs of a pod that were started with libktsn.so and have not loaded it.
//
// The input belongs to the pod: environment, mappings and the program's file. It may be huge, malformed, or never
// return, such as a file of a FUSE file system or memory that is mapped from one. So the agent reads none of it. It
// starts itself again with the command `inspect`; that process has limits for memory and time (limits.go) and only the
// capabilities for reading. It returns a short list as JSON, and the agent formats the messages.
//
// A process that waits for a file that does not answer cannot even be killed. The agent then continues without it, and
// stops inspecting programs while there are several such processes.
package inspect
