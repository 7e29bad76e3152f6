// SPDX-License-Identifier: Apache-2.0

// Package federation tests a hub, which is Karmada, and its member clusters, which have separate subnets behind routers.
// `make federation` starts them and runs the tests; by hand, with a running hub that has members:
//
//	KTSN_FEDERATION=ktsn scripts/go.sh test -C test/cluster -count=1 -v ./federation
//
// Without a hub the tests are skipped, or fail if CI=true or KTSN_REQUIRE=1.
//
// Tests may run in any order: each waits until the federation has recovered from the one before.
package federation
