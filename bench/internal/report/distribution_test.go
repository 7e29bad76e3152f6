// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

var update = flag.Bool("update", false, "write docs/measurements/latency.svg")

// reread returns a distribution as it was written and read again.
func reread(t *testing.T, d *distribution) *distribution {
	t.Helper()
	var text bytes.Buffer
	testlab.Must(t, d.write(&text))
	if lines := strings.Count(text.String(), "\n"); lines != len(d.Runs)+1 {
		t.Errorf("%d runs are written in %d lines", len(d.Runs), lines)
	}
	read := &distribution{}
	testlab.Must(t, json.Unmarshal(text.Bytes(), read))
	return read
}

func svgOf(t *testing.T, d *distribution) string {
	t.Helper()
	drawn, err := d.picture()
	testlab.Must(t, err)
	if drawn == nil {
		t.Fatal("there is no picture")
	}
	var out bytes.Buffer
	testlab.Must(t, drawn.write(&out, "svg"))
	return out.String()
}

func TestDistribution(t *testing.T) {
	paths := []string{results.PathDirect, results.PathKernelVXLANSpin, results.PathKernelVXLAN, results.PathHostSpin}
	measurement := generated(5000, paths, []int{64, 256}, true)
	d := newDistribution(measurement)
	if len(d.Runs) != 8 {
		t.Fatalf("%d runs, want the 8 plain ones", len(d.Runs))
	}
	for i, run := range d.Runs {
		latencies := slices.Sorted(slices.Values(measurement.Series[i].LatencyNs))
		at := func(hundredths int) int64 { return run.LatencyNs[slices.Index(d.Hundredths, hundredths)] }
		if summary := stats.Summarize(latencies); at(0) != latencies[0] || at(rankP50) != summary.P50 || at(rankP99_9) != summary.P99_9 || at(10_000) != summary.Max {
			t.Errorf("%s: %d, want those of %+v", run.Path, run.LatencyNs, summary)
		}
	}
	if drawn := svgOf(t, d); drawn != svgOf(t, reread(t, d)) {
		t.Error("the written distribution has another picture")
	} else if !strings.Contains(drawn, "256 B") || !strings.Contains(drawn, ">kernel-vxlan-spin<") || strings.Contains(drawn, ">kernel-vxlan<") || !strings.Contains(drawn, ">host-spin<") {
		t.Errorf("the picture has other runs: %s", drawn)
	}
}

func TestDistributionOfOtherPaths(t *testing.T) {
	drawn, err := newDistribution(generated(100, []string{results.PathKernelVXLAN}, []int{64}, false)).picture()
	if drawn != nil || err != nil {
		t.Errorf("a picture of no path: %v", err)
	}
	if d := newDistribution(&Measurement{Summary: &results.Summary{}}); d != nil {
		t.Errorf("a distribution of nothing: %+v", d)
	}
}

// TestPictureIsUpToDate compares the picture of the pages with the committed figures of its run.
func TestPictureIsUpToDate(t *testing.T) {
	const source, file = "../../../docs/measurements/latency.json", "../../../docs/measurements/latency.svg"
	text, err := os.ReadFile(source)
	if _, without := os.Stat(file); errors.Is(err, fs.ErrNotExist) && errors.Is(without, fs.ErrNotExist) {
		return // nothing is committed
	}
	testlab.Must(t, err)
	d := &distribution{}
	testlab.Must(t, json.Unmarshal(text, d))
	drawn := svgOf(t, d)
	if *update {
		testlab.Must(t, os.WriteFile(file, []byte(drawn), 0o644))
	}
	if committed, err := os.ReadFile(file); err != nil || string(committed) != drawn {
		t.Errorf("%s is not the picture of %s: run `scripts/go.sh test -C bench ./internal/report -run TestPictureIsUpToDate -update` (%v)", file, source, err)
	}
}
