// SPDX-License-Identifier: Apache-2.0

// Package hugepages reserves memory pages of 2 MB in addition to this machine's, and releases them. The number is
// written to a note, a file, by which another program can release the pages after a kill.
//
// Threads and programs take turns by a lock. Number and note cannot change atomically: meanwhile the intended state is
// in the lock's file, and the next holder of the lock establishes it first.
package hugepages
