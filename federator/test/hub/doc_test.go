// SPDX-License-Identifier: Apache-2.0

// Package hub tests the federator against the hub's API server, with Karmada's kinds and without its programs, whose
// work is done by karmada_test.go. `make e2e` runs the tests with the API server that it has built; by hand:
//
//	KTSN_KUBERNETES_DIR=$(bin/ktsn-cluster build | sed -n 's/^kubernetes\t//p') scripts/go.sh -C federator test ./test/hub
package hub
