// SPDX-License-Identifier: Apache-2.0

// Package pathmtu finds the MTU of paths to nodes of other clusters, which lead through unknown routers.
package pathmtu
