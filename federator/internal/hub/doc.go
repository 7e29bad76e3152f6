// SPDX-License-Identifier: Apache-2.0

// Package hub connects to the hub of the federation, Karmada's API server: as the federator for its controllers, and as
// the caller for requests. The hub's RBAC decides in both cases.
package hub
