// SPDX-License-Identifier: Apache-2.0

// Package hugepages sets memory pages of 2 MB of this machine aside for a while, beside those that are there, and gives them
// back. How many is in a note, a file, by which somebody else can give them back when who set them aside was killed.
//
// Threads and programs take turns by a lock. Number and note cannot change at once: what shall be if one is killed in between
// stands in the file of the lock meanwhile, and the next one does that first.
package hugepages
