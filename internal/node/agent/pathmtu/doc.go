// SPDX-License-Identifier: Apache-2.0

// Package pathmtu finds how large packets to nodes of other clusters can be: between them lie routers whose links no node knows.
package pathmtu
