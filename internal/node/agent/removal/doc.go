// SPDX-License-Identifier: Apache-2.0

// Package removal takes the project off a cluster, before `helm uninstall` removes its objects:
//
//  1. It refuses while pods use the networks, and names them.
//  2. It removes the DaemonSet, so that nobody installs anew what is about to be removed.
//  3. On each node a pod of its own removes what was installed there.
//
// Each step may have been done before. Nothing of it needs the DaemonSet, so that it also works where that was never
// started, or is gone already.
package removal
