// SPDX-License-Identifier: Apache-2.0

// Package e2e tests a running cluster: that it is what tests of Kubernetes may rely on, and KuberneTSN's network in
// it. `make e2e` brings the cluster up and runs the tests; by hand, with a cluster that is up:
//
//	KTSN_CLUSTER=ktsn scripts/go.sh -C test/cluster test ./e2e
//
// Without a cluster the tests are skipped, and fail where CI=true or KTSN_REQUIRE=1.
//
// Tests that disturb the nodes are in files whose names begin with z, because they run last.
package e2e
