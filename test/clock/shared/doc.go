// SPDX-License-Identifier: Apache-2.0

// Package shared has the messages of the serial line between a host and its guest. The page of package guestclock is
// separate. It is for amd64 only, as the guests are.
package shared
