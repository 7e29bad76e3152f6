// SPDX-License-Identifier: Apache-2.0

package netns_test

import "testing"

// Each test begins with content or timing. `make test` runs each kind as a suite of its own (scripts/suites).

// content marks a test of the frames that are sent, dropped or counted. It runs in parallel with other tests and must
// also pass on a loaded machine.
func content(t *testing.T) {
	t.Helper()
	t.Parallel()
}

// timing marks a test that measures times, floods or kills under load, or uses a single resource of the machine such as
// the pinned receive program. Nothing else runs at the same time, except its own subtests and, if it calls t.Parallel,
// other tests that call it too.
func timing(t *testing.T) { t.Helper() }
