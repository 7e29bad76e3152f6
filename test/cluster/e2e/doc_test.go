// SPDX-License-Identifier: Apache-2.0

// Package e2e tests a running cluster: that it is what tests of Kubernetes may rely on, and KuberneTSN's network in
// it. `make e2e` brings the cluster up and runs the tests; by hand, with a cluster that is up:
//
//	KTSN_CLUSTER=ktsn scripts/go.sh test -C test/cluster -count=1 -v ./e2e
//
// Without a cluster the tests are skipped, and fail where CI=true or KTSN_REQUIRE=1.
//
// Tests may come in any order: each waits until what the one before it disturbed has come back.
package e2e
