// SPDX-License-Identifier: Apache-2.0

// Package asker has a pod send requests to another one continuously, by name, and computes from the asking pod's
// records for how long there was no answer. The server is agnhost's `netexec`, which returns by UDP what follows the
// word "echo".
package asker
