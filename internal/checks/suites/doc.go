// SPDX-License-Identifier: Apache-2.0

// Package suites holds the test that compares the tests that there are with those that the targets of the Makefile run
// (scripts/suites, datapath's meson.build), so that none is left out.
package suites
