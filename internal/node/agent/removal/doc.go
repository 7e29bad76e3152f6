// SPDX-License-Identifier: Apache-2.0

// Package removal uninstalls the project from a cluster, before `helm uninstall` removes its objects:
//
//  1. It refuses while pods use the networks, and lists them.
//  2. It removes the DaemonSets, so that nothing is installed again.
//  3. On each node a pod removes the installed files.
//
// Each step can be repeated. None needs the DaemonSets, so that it also works if these never started or were already
// removed.
package removal
