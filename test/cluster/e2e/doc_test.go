// SPDX-License-Identifier: Apache-2.0

// Package e2e tests a running cluster: that tests of Kubernetes can rely on it, and KuberneTSN's network in it. `make e2e`
// starts the cluster and runs the tests; by hand, with a running cluster:
//
//	KTSN_CLUSTER=ktsn scripts/go.sh test -C test/cluster -count=1 -v ./e2e
//
// Without a cluster the tests are skipped, or fail if CI=true or KTSN_REQUIRE=1.
//
// Tests may run in any order: each waits until the cluster has recovered from the one before.
package e2e
