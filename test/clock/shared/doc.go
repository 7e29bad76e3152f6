// SPDX-License-Identifier: Apache-2.0

// Package shared is what a guest and its host have in common: a page of memory that both have mapped, in which the guest writes
// what its clock said and answers exchanges of processor counters, and the messages of the serial line by which the host tells the
// guest what to do. Amd64 only, as the guests are.
package shared
