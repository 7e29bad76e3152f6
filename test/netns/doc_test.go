// SPDX-License-Identifier: Apache-2.0

// Package netns_test tests the whole path of a packet in network namespaces: the built programs, the real
// kernel, one namespace for each node and pod. It needs root and the programs of `make build` (their folder
// in KTSN_BIN_DIR, else bin/); without them tests are skipped, or fail when KTSN_REQUIRE=1 or CI=true.
//
// What is tested here does not depend on the machine's mood: that nothing is lost, changed, early or out of
// order, and that nothing is left behind. `ktsn demo` measures how fast it is; its tests are in bench/test.
//
// A test that mostly waits is parallel (t.Parallel; `make test` runs four of them at a time): all of it is in namespaces and
// folders of its own. What floods, measures, or kills under load has the machine to itself, or shares it with its own subtests
// only: those are parallel in a test that is not.
package netns_test
