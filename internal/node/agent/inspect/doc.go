// SPDX-License-Identifier: Apache-2.0

// Package inspect looks at the programs of a pod, to say which of them were started with libktsn.so and are without it.
//
// What there is to read belongs to the pod: environment, mappings and the program's file. It may be huge, broken, or never
// answer, as a file of a FUSE file system or memory that is mapped from one. So the agent reads none of it. It starts itself
// again with the command `inspect`, and that process has little memory and processor time (limits.go), no capabilities but
// those for reading, and some seconds. The agent takes from it a short list, in JSON, and makes the sentences itself.
//
// A process that waits for a file that does not answer cannot even be killed. The agent then goes on without it, and looks at no
// programs any more while there are several of them.
package inspect
