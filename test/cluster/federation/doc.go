// SPDX-License-Identifier: Apache-2.0

// Package federation tests clusters that act together and stand alone: a hub, which is Karmada, and members that each have a subnet of
// their own behind a router. `make federation` brings them up and runs the tests; by hand, with a hub that is up and has members:
//
//	KTSN_FEDERATION=ktsn scripts/go.sh test -C test/cluster -count=1 -v ./federation
//
// Without a hub the tests are skipped, and fail where CI=true or KTSN_REQUIRE=1.
//
// Tests may come in any order: each waits until what the one before it disturbed has come back.
package federation
