// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
)

const benchNamespace = "e2e-bench"

// benchProfile is a bench of a few seconds.
const benchProfile = `name: short
paths: [tsn, primary-spin, primary, host-spin, host]
workloads: [plain, {name: saturated, paths: [tsn]}, {name: talkers, paths: [primary]}]
payloads: [64]
messages: 100
repetitions: 2
warm-up: 10
talkers: 2
`

// startBenchIn starts `ktsn bench run` in the cluster.
func startBenchIn(t *testing.T, out string, more ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "short.yaml")
	if err := os.WriteFile(profile, []byte(benchProfile), 0o600); err != nil {
		t.Fatal(err)
	}
	output := &bytes.Buffer{}
	command := exec.Command(testlab.Program(t, "ktsn"), append([]string{"bench", "run", profile, "--kubeconfig", under.Kubeconfig(), "--namespace",
		benchNamespace, "--out", out, "--quiet"}, more...)...)
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if command.ProcessState == nil {
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	})
	return command, output
}

// awaitBenchRuns waits until a bench has completed that many runs.
func awaitBenchRuns(t *testing.T, out string, count int, output *bytes.Buffer) {
	t.Helper()
	testlab.Eventually(t, patience, 100*time.Millisecond, func() error {
		runs, err := filepath.Glob(filepath.Join(out, "runs", "*.csv.gz"))
		if err != nil {
			t.Fatal(err)
		}
		if len(runs) >= count {
			return nil
		}
		return fmt.Errorf("%d runs after %v: %s", len(runs), patience, output)
	})
}

// noBenchNamespace fails the test if a bench has left its namespace.
func noBenchNamespace(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := client.CoreV1().Namespaces().Get(ctx, benchNamespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("namespace %s is still there (%v)", benchNamespace, err)
	}
}

func TestInterruptedBenchResumes(t *testing.T) {
	ctx := needChart(t)
	t.Cleanup(func() { deleteNamespace(t, benchNamespace) })
	out := filepath.Join(t.TempDir(), "bench")
	first, output := startBenchIn(t, out)
	awaitBenchRuns(t, out, 2, output)
	other, complaint := startBenchIn(t, filepath.Join(t.TempDir(), "other"))
	if err := other.Wait(); err == nil || !strings.Contains(complaint.String(), "namespace "+benchNamespace+" is in use") {
		t.Errorf("another bench in the same namespace: %v: %s", err, complaint)
	}
	if err := first.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err == nil || !strings.Contains(output.String(), "the same command goes on with it") {
		t.Errorf("interrupted: %v: %s", err, output)
	}
	noBenchNamespace(ctx, t)

	second, output := startBenchIn(t, out)
	if err := second.Wait(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	noBenchNamespace(ctx, t)
	checkBenchSummary(t, out)
	if page, err := os.ReadFile(filepath.Join(out, "report.html")); err != nil || !strings.Contains(string(page), "two nodes of a Kubernetes cluster") {
		t.Errorf("the report: %v", err)
	}
}

// benchOnATSNNetwork measures on a network without pods, so that the bench's own pods make the operator start ktsnd.
func benchOnATSNNetwork(ctx context.Context, t *testing.T) {
	t.Cleanup(func() { deleteNamespace(t, benchNamespace) })
	refused, complaint := startBenchIn(t, t.TempDir(), "--network", "nowhere")
	if err := refused.Wait(); err == nil || !strings.Contains(complaint.String(), "the cluster has no TSNNetwork nowhere") {
		t.Errorf("%v: %s", err, complaint)
	}
	noBenchNamespace(ctx, t)
	out := filepath.Join(t.TempDir(), "bench")
	bench, output := startBenchIn(t, out, "--network", "tsn")
	if err := bench.Wait(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	noBenchNamespace(ctx, t)
	checkBenchSummary(t, out)
}

// checkBenchSummary checks everything that does not depend on the machine.
func checkBenchSummary(t *testing.T, out string) {
	t.Helper()
	summary := results.ReadSummary(t, out)
	var measured []string
	for _, run := range summary.Runs {
		measured = append(measured, fmt.Sprintf("%s %s %d", run.Workload, run.Path, run.Sent))
		if run.Latency == nil || (run.Late == nil) != (run.Path != results.PathTSN) || ((results.ThroughKtsnd(run.Path) || results.Spins(run.Path)) && run.Lost+run.Early > 0) {
			t.Errorf("%s: %+v, latency %v", run.Key(), run.Counts, run.Latency)
		}
		if beside := run.CompetingFrames; (beside != nil && *beside > 0) != (run.Workload == results.WorkloadSaturated) {
			t.Errorf("%s: %v messages beside", run.Key(), beside)
		}
	}
	want := []string{"plain tsn 200", "plain primary-spin 200", "plain primary 200", "plain host-spin 200", "plain host 200", "talkers primary 400",
		"saturated tsn 200"}
	if !slices.Equal(measured, want) {
		t.Errorf("measured %q, want %q", measured, want)
	}
	checkSpins(t, summary)
	// The nodes are namespaces of one kernel, which the bench must detect.
	for _, run := range summary.Runs {
		if clockError := run.ClockError; clockError == nil || !clockError.SameClock || clockError.DoubtOf() != "" {
			t.Errorf("%s: the error of the clocks is %+v", run.Key(), clockError)
		}
	}
	if summary.Clock == nil || summary.Clock.ErrorNs != 0 || !strings.Contains(summary.Clock.About, "run on one kernel") || len(summary.Profile.Programs) != 2 {
		t.Errorf("clock %+v, programs %v", summary.Clock, summary.Profile.Programs)
	}
}

// checkSpins checks by their processor time that spinning talkers were awake before they sent, and that they had
// ktsnd's scheduling policy, unless the report says that they had not.
func checkSpins(t *testing.T, summary *results.Summary) {
	t.Helper()
	sending := map[string]float64{}
	for _, run := range summary.Runs {
		if run.Workload != results.WorkloadPlain {
			continue
		}
		if run.SendingCores == nil || *run.SendingCores <= 0 {
			t.Errorf("%s: nobody knows what sending took: %v", run.Key(), run.CPUCores)
			continue
		}
		sending[run.Path] = *run.SendingCores
	}
	for path, took := range sending {
		if results.Spins(path) && took <= sending[results.Route(path)] {
			t.Errorf("awake before each send the talker of path %s took %v cores, and that which sleeps %v", path, took, sending[results.Route(path)])
		}
	}
	if summary.Setup.SpinNs != summary.Host.SpinNs || summary.Host.SpinNs == 0 {
		t.Errorf("talkers are awake %d ns before they send, ktsnd %d ns", summary.Setup.SpinNs, summary.Host.SpinNs)
	}
	if os.Getenv("KTSN_REALTIME") != "" {
		return // the node may not have enough for all
	}
	if why := withoutFIFO(summary); why != "" || summary.Setup.FIFOPriority != summary.Host.SchedulerPriority {
		t.Errorf("talkers have priority %d, ktsnd %d: %s", summary.Setup.FIFOPriority, summary.Host.SchedulerPriority, why)
	}
}

// withoutFIFO returns why spinning talkers did not have SCHED_FIFO, "" if they had.
func withoutFIFO(summary *results.Summary) string {
	for _, gap := range summary.NotMeasured {
		if strings.Contains(gap.What, "SCHED_FIFO") {
			return gap.Why
		}
	}
	return ""
}

// TestBenchReportsMissingRealTime: without path tsn the bench does not learn what ktsnd needs on these
// nodes. If the kernel does not divide the budget, its talker needs no share, and nothing is reported.
func TestBenchReportsMissingRealTime(t *testing.T) {
	ctx := needCluster(t)
	t.Cleanup(func() { deleteNamespace(t, benchNamespace) })
	out, profile := filepath.Join(t.TempDir(), "bench"), filepath.Join(t.TempDir(), "spin.yaml")
	if err := os.WriteFile(profile, []byte("paths: [primary-spin]\nmessages: 50\nrepetitions: 1\nwarm-up: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(ctx, testlab.Program(t, "ktsn"), "bench", "run", profile, "--kubeconfig", under.Kubeconfig(), "--namespace", benchNamespace,
		"--image", "localhost/kubernetsn/tsnperf:dev", "--out", out, "--quiet").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	summary := results.ReadSummary(t, out)
	why, priority := withoutFIFO(summary), summary.Setup.FIFOPriority
	refused := strings.Contains(why, "its talker had ordinary priority") && strings.Contains(why, "Operation not permitted") && priority == 0
	given := why == "" && priority > 0 && !cgroups.RealtimeDivided()
	if (!refused && !given) || len(summary.Runs) != 1 || summary.Runs[0].Sent != 50 {
		t.Errorf("priority %d, %q; %d runs: %s", priority, why, len(summary.Runs), output)
	}
}

func TestBenchReportsGaps(t *testing.T) {
	needChart(t)
	for name, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"no such network": {[]string{"--network", "default/none"}, "the cluster has no network default/none"},
		"no such image":   {[]string{"--image", "kubernetsn.invalid/tsnperf:none"}, "load the image onto the nodes, or name another with --image"},
	} {
		t.Run(name, func(t *testing.T) {
			bench, output := startBenchIn(t, t.TempDir(), test.arguments...)
			if err := bench.Wait(); err == nil || !strings.Contains(output.String(), test.want) || strings.Count(output.String(), "\n") != 1 {
				t.Errorf("%v: %s; want %s", err, output, test.want)
			}
			noBenchNamespace(t.Context(), t)
		})
	}
}
