// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
)

func TestMain(m *testing.M) {
	registerExperiments()
	os.Exit(m.Run())
}

// longest is what a shipped profile with an experiment may be planned to take; dds has a hundred cases, and links two underlays.
func longest(profile string) time.Duration {
	switch profile {
	case "dds":
		return 25 * time.Minute
	case "links":
		return 16 * time.Minute
	}
	return 8 * time.Minute
}

// least is how many repetitions a shipped profile has, without which there are no standard errors.
const least = 3

func TestShippedProfiles(t *testing.T) {
	count := 0
	for _, name := range engine.ShippedProfiles() {
		for _, means := range []*engine.Means{engine.Namespaces, engine.Cluster} {
			profile, err := engine.ReadProfile(name, means)
			if err != nil && means == engine.Cluster && strings.Contains(err.Error(), "target: is namespaces") {
				continue // which it says itself
			}
			if err != nil {
				t.Fatal(err)
			}
			if profile.Experiment == "" || strings.HasSuffix(name, "-paper") {
				continue
			}
			count++
			if profile.Name != name || profile.About == "" {
				t.Errorf("%s: called %q, %q", name, profile.Name, profile.About)
			}
			var planned time.Duration
			for _, block := range engine.Plan(profile) {
				for _, run := range block.Runs {
					planned += run.Duration()
				}
			}
			if limit := longest(name); planned == 0 || planned > limit {
				t.Errorf("%s is planned to take %v in %s, limit %v", name, planned, means.Name, limit)
			}
			if profile.Repetitions < least {
				t.Errorf("%s has %d repetitions, of which nobody knows how exact they are; want %d", name, profile.Repetitions, least)
			}
			t.Logf("%s, %s: %v over %v, without %v", name, means.Name, planned, profile.Paths, profile.Lacking)
		}
	}
	if count == 0 {
		t.Error("there is none")
	}
}

func TestInvalidExperimentsAreRejected(t *testing.T) {
	for name, test := range map[string]struct{ profile, want string }{
		"a path of messages":      {"name: x\npaths: [direct]\nexperiment: throughput\n", `:2: paths: no path is called "direct"; give some of [host flannel flannel-host-gw tsn link]`},
		"a path of clusters":      {"name: x\npaths: [primary]\nexperiment: throughput\n", ":2: paths: path primary cannot be measured: it is that of a cluster"},
		"an unknown field":        {"name: x\npaths: [host]\nexperiment: throughput\nwith:\n  buffers: 5\n", ":5: with: buffers: is no field of experiment throughput; those are buffer, duration,"},
		"a buffer too large":      {"name: x\npaths: [host]\nexperiment: throughput\nwith:\n  buffer: 70000\n", ":5: with: buffer: is 70000; give 16 to 65507"},
		"an MTU too large":        {"name: x\npaths: [host]\nexperiment: throughput\nwith:\n  mtus: [1500, 65000]\n", ":5: with: mtus: an item is 65000; give 1500 to 9000"},
		"a test that nobody has":  {"name: x\npaths: [host]\nexperiment: throughput\nwith:\n  tests: [quic]\n", `:5: with: tests: an item is "quic"; give some of [tcp udp sctp ping]`},
		"half a second of iperf3": {"name: x\npaths: [host]\nexperiment: throughput\nwith:\n  duration: 1500ms\n", "duration: 1.5s; iperf3 knows whole seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "p.yaml")
			if err := os.WriteFile(file, []byte(test.profile), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := engine.ReadProfile(file, engine.Namespaces); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v\nwant %s", err, test.want)
			}
		})
	}
}
