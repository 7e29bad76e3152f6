// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

// generate makes the folder of a bench with so many messages in all.
func generate(t testing.TB, messages int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "generated")
	profile := engine.Defaults()
	profile.Name, profile.Paths, profile.Payloads = "generated", engine.AllPaths[:3], []int{64, 256, 1024}
	profile.Budget = 400 * time.Microsecond
	profile.Messages = messages / (3 * 3 * profile.Repetitions)
	store, err := engine.OpenStore(dir, engine.NewManifest(&profile, results.Host{Date: time.Unix(1_790_000_000, 0)}, engine.Environment{}))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, block := range engine.Plan(&profile) {
		for _, run := range block.Runs {
			if run.Number == 0 {
				continue
			}
			if err := store.Add(run, generated(random, run)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// generated has a bulk and a tail of latencies.
func generated(random *rand.Rand, run engine.Run) *engine.Outcome {
	outcome := &engine.Outcome{Problems: []string{}}
	for i := range run.Messages {
		due := 1_790_000_000_000_000_000 + (int64(run.Number)*100_000+int64(i))*run.CycleNs
		us := float64(5+len(run.Path)) * math.Exp(0.2*random.NormFloat64())
		if random.IntN(50) == 0 {
			us *= math.Exp(4 * random.Float64())
		}
		arrival := due + int64(us*1000)
		outcome.Messages = append(outcome.Messages, results.Message{Sequence: uint32(i), Txtime: due, SendStart: due - 2_500_000,
			SendEnd: due - 2_499_000, Departed: due + 10, Wire: (due + arrival) / 2, Arrival: arrival})
	}
	outcome.Observed.Sent, outcome.Observed.Received = run.Messages, run.Messages
	return outcome
}

func TestReportOfMillionMessages(t *testing.T) {
	dir := generate(t, 1_000_000)
	var before, after syscall.Rusage
	errBefore := syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	var stdout, stderr bytes.Buffer
	if status := Main(t.Context(), []string{"ktsn", "bench", "report", dir}, &stdout, &stderr); status != commandline.ExitOK {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	if err := errors.Join(errBefore, syscall.Getrusage(syscall.RUSAGE_SELF, &after)); err != nil {
		t.Fatal(err)
	}
	// Processor time, for others may have the processors.
	if spent := time.Duration(after.Utime.Nano() - before.Utime.Nano()); spent > 10*time.Second {
		t.Errorf("it took %v", spent)
	}
	info, err := os.Stat(filepath.Join(dir, "report.html"))
	if err != nil || info.Size() > 5<<20 {
		t.Errorf("the report: %+v, %v", info, err)
	}
	if !strings.Contains(stdout.String(), "90 of 90 runs") || !strings.Contains(stdout.String(), "| plain direct              | plain kernel-vxlan ") {
		t.Errorf("it says\n%s", stdout.String())
	}
}

func TestReportOfSeveralBenches(t *testing.T) {
	first, other, out := generate(t, 4500), generate(t, 9000), t.TempDir()
	var stdout, stderr bytes.Buffer
	arguments := []string{"ktsn", "bench", "report", first, other, "--out", out, "--assert", "direct.lost == 0"}
	if status := Main(t.Context(), arguments, &stdout, &stderr); status != commandline.ExitOK {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil || strings.Count(string(page), "generated: timed messages") != 2 {
		t.Errorf("the page lacks one of them, %v", err)
	}
	for _, name := range []string{"summary.json", "m2-summary.json", "plots/cdf-figure-1.svg", "plots/m2-cdf-figure-1.svg", "distribution.json", "m2-latency.svg"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}
