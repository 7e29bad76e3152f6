// SPDX-License-Identifier: Apache-2.0

// Package operator tests the operator and its webhook with the API server and etcd of Kubernetes, and nothing else of
// it: no kubelet, no controller manager. Package apiserver says how.
//
// Without an API server they are skipped, and fail where CI=true or KTSN_REQUIRE=1.
package operator
