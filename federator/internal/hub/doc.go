// SPDX-License-Identifier: Apache-2.0

// Package hub reaches the hub of the federation, Karmada's API server: as the federator itself for its controllers, and as whoever
// asked for what a request wants. The hub's RBAC decides in both cases.
package hub
