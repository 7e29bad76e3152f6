// SPDX-License-Identifier: Apache-2.0

// Package operator tests the operator and its webhook with the API server and etcd of Kubernetes, and nothing else of
// it: no kubelet, no controller manager. `make e2e` runs the tests with the API server that it has built; by hand:
//
//	KTSN_KUBERNETES_DIR=$(bin/ktsn-cluster build | sed -n 's/^kubernetes\t//p') scripts/go.sh test ./test/operator
//
// Without an API server they are skipped, and fail where CI=true or KTSN_REQUIRE=1.
package operator
