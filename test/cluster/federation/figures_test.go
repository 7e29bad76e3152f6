// SPDX-License-Identifier: Apache-2.0

//go:build bench

package federation

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// bench is one run of all figures.
type bench struct {
	*report
	f         *federator
	namespace string
	// east and west are the members, east with two nodes.
	east, west *place
}

// TestFederationFigures measures the cost of a federation, and the failures that it tolerates. `make bench-federation`
// runs it.
func TestFederationFigures(t *testing.T) {
	// The chart sets it for the federator.
	t.Setenv("GOGC", "50")
	t.Setenv("GOMEMLIMIT", "200MiB")
	needCharts(t)
	_, f := needFederator(t)
	if len(members[0].Nodes) < 2 {
		testlab.Missing(t, "the first member has one node, and what is within a cluster has to go from node to node; KTSN_FEDERATION_EAST_NODES=2 of scripts/federation/bed.sh")
	}
	b := &bench{report: newReport(), f: f, east: members[0], west: members[1]}
	t.Cleanup(func() { b.write(t) })
	b.namespace = newNamespace(t.Context(), t)
	stations := b.station(t.Context(), t)
	for _, part := range []struct {
		name    string
		measure func(ctx context.Context, t *testing.T)
	}{
		{"at rest", b.atRest},
		{"deploy", b.deploy},
		{"move", b.move},
		{"messages", stations.messages},
		{"TCP and ping", stations.throughput},
		{"cut", stations.cut},
		{"API", b.answers},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, member := range members {
				member.rests(t.Context(), t)
			}
			part.measure(t.Context(), t)
		})
	}
}

// rests waits until no pod of a member is being created or removed.
func (p *place) rests(ctx context.Context, t *testing.T) {
	t.Helper()
	await(ctx, t, p.hasSettled)
}

// trial reports whether the run only tests the bench itself.
func trial() bool { return os.Getenv("KTSN_FEDERATION_TRIAL") == "1" }

// times returns the number of repetitions or objects: fewer in a trial.
func times(count int) int {
	if trial() {
		return max(count/10, 2)
	}
	return count
}

// ratios divides the results of each turn.
func ratios(above, below []float64) []float64 {
	var all []float64
	for i := range above {
		all = append(all, above[i]/below[i])
	}
	return all
}

// ratioOfMedians returns the ratio of two medians, with the range of the turns' ratios.
func ratioOfMedians(name string, above, below []float64) figure {
	f := over(name, "", ratios(above, below)...)
	f.Value = stats.Median(above) / stats.Median(below)
	return f
}

// percentile returns a percentile of durations; hundredths is in hundredths of a percent.
func percentile(all []time.Duration, hundredths int) time.Duration {
	var values []int64
	for _, duration := range all {
		values = append(values, int64(duration))
	}
	slices.Sort(values)
	return time.Duration(stats.Percentile(values, hundredths))
}
