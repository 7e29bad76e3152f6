// SPDX-License-Identifier: Apache-2.0

// Package agent tests an agent's watches and their cost with the API server and etcd of Kubernetes. The tests write the operator's
// objects.
//
// Without an API server the tests are skipped, or fail with CI=true or KTSN_REQUIRE=1.
package agent
