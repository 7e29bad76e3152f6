// SPDX-License-Identifier: Apache-2.0

// Package shared is what a guest and its host have in common besides the page of package guestclock: the messages of the serial
// line by which the host tells the guest what to do. Amd64 only, as the guests are.
package shared
