// SPDX-License-Identifier: Apache-2.0

// Package agent tests what an agent watches of a cluster, and what that costs, with the API server and etcd of Kubernetes. The
// tests write what the operator writes elsewhere.
//
// Without an API server they are skipped, and fail where CI=true or KTSN_REQUIRE=1.
package agent
