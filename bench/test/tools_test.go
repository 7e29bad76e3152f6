// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// The experiments with other people's programs, in seconds.
const (
	shortThroughput = `name: short
paths: [host, flannel, flannel-host-gw, tsn]
repetitions: 2
experiment: throughput
with: {duration: 1s, mtus: [1500], pings: 10}
`
	shortLinks = `name: short
paths: [flannel, link, tsn]
repetitions: 1
experiment: links
with: {parts: [timed, transfers, many], tests: [tcp, sctp, ping], underlays: [flat, routed], mtus: [1500], duration: 1s, pings: 10, messages: 200, links: [10], rest: 1s}
`
	shortDDS = `name: short
paths: [host, tsn]
paths-if-possible: [flannel]
repetitions: 1
experiment: dds
with: {parts: [overhead, best-effort, subscribers, security], sizes: [64], subscribers: [3], levels: [encrypt-rtps], duration: 3s}
`
)

// benchCommand is `ktsn bench run` with a profile's text.
func benchCommand(t *testing.T, profile, out string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	if os.Geteuid() != 0 {
		testlab.Missing(t, "needs root to make network namespaces")
	}
	file := filepath.Join(t.TempDir(), "profile.yaml")
	if err := os.WriteFile(file, []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	output := &bytes.Buffer{}
	command := exec.Command(program(t, "ktsn"), "bench", "run", file, "--out", out, "--quiet")
	command.Stdout, command.Stderr = output, output
	return command, output
}

// needTools skips, or in CI fails, without the programs of others.
func needTools(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			testlab.Missing(t, name+" is not installed; scripts/install-deps.sh test")
		}
	}
}

// rowsOf are the first cells of a table's rows.
func rowsOf(t *testing.T, summary *results.Summary, section, table string, cells int) []string {
	t.Helper()
	for _, current := range summary.Sections {
		for _, currentTable := range current.Tables {
			if current.ID == section && currentTable.ID == table {
				var rows []string
				for _, row := range currentTable.Rows {
					rows = append(rows, strings.Join(row[:cells], " "))
				}
				return rows
			}
		}
	}
	t.Fatalf("no table %s in section %s", table, section)
	return nil
}

func TestThroughput(t *testing.T) {
	needTools(t, "iperf3", "ping")
	out := filepath.Join(t.TempDir(), "bench")
	command, output := benchCommand(t, shortThroughput, out)
	if err := command.Run(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if all := runFiles(t, out); len(all) != 4*3*2 {
		t.Errorf("%d runs", len(all))
	}
	summary := results.ReadSummary(t, out)
	want := []string{"host TCP 1500 1500 2", "flannel TCP 1500 1450 2", "flannel-host-gw TCP 1500 1500 2", "tsn TCP 1500 1450 2",
		"host UDP 1500 1500 2", "flannel UDP 1500 1450 2", "flannel-host-gw UDP 1500 1500 2", "tsn UDP 1500 1450 2"}
	if rows := rowsOf(t, summary, "throughput", "transfers", 5); !slices.Equal(rows, want) {
		t.Errorf("transfers %q", rows)
	}
	if rows := rowsOf(t, summary, "latency", "round-trips", 3); len(rows) != 4 || rows[3] != "tsn 1500 2" {
		t.Errorf("round trips %q", rows)
	}
	if page, err := os.ReadFile(filepath.Join(out, "report.html")); err != nil || !strings.Contains(string(page), `id="throughput-transfers"`) {
		t.Errorf("the report: %v", err)
	}
	compared, status := ktsn(t, "bench", "compare", out, out, "--assert", `a.tsn["tcp-1500"].received_bps == b.tsn["tcp-1500"].received_bps`)
	if status != 0 || strings.Contains(compared, "B is") || strings.Count(compared, "no difference shown") < 4*2 {
		t.Errorf("a bench beside itself: status %d: %s", status, compared)
	}
	if output, status := ktsn(t, "bench", "report", out, "--assert", `host["tcp-1500"].received_bps < 1`); status != 1 || !strings.Contains(output, "an assertion does not hold") {
		t.Errorf("status %d: %s", status, output)
	}
	if figures, err := os.ReadFile(filepath.Join(out, "figures.csv")); err != nil || !strings.Contains(string(figures), "\ntsn,udp-1500,,,2,received_bps,") {
		t.Errorf("figures: %v: %s", err, figures)
	}
}

func TestLinks(t *testing.T) {
	needTools(t, "iperf3", "ping")
	program(t, "ktsn-test-sctp")
	out := filepath.Join(t.TempDir(), "bench")
	command, output := benchCommand(t, shortLinks, out)
	if err := command.Run(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	summary := results.ReadSummary(t, out)
	for _, table := range []struct {
		section, name string
		cells         int
		want          []string
	}{
		{"beside-flannel", "medians", 1, []string{"tcp-1500", "sctp-1500", "ping-1500", "tcp-1500-routed", "sctp-1500-routed", "ping-1500-routed"}},
		{"throughput", "transfers", 4, []string{"flannel TCP 1500 1450", "link TCP 1500 1450", "flannel TCP 1500, routed 1450", "link TCP 1500, routed 1450",
			"flannel SCTP 1500 1450", "link SCTP 1500 1450", "flannel SCTP 1500, routed 1450", "link SCTP 1500, routed 1450"}},
		{"timed", "messages", 1, []string{"link", "tsn"}},
		{"many", "plugged", 1, []string{"10"}},
	} {
		if rows := rowsOf(t, summary, table.section, table.name, table.cells); !slices.Equal(rows, table.want) {
			t.Errorf("%s of %s: %q", table.name, table.section, rows)
		}
	}
	if len(summary.Problems) > 0 {
		t.Errorf("problems: %q", summary.Problems)
	}
}

func runFiles(t *testing.T, out string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "runs", "*.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Twenty runs of three seconds, in which ddsperf mostly waits, and of which no figure is looked at.
func TestDDS(t *testing.T) {
	t.Parallel()
	needTools(t, "ddsperf", "openssl")
	out := filepath.Join(t.TempDir(), "bench")
	command, output := benchCommand(t, shortDDS, out)
	if err := command.Run(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	summary := results.ReadSummary(t, out)
	for _, table := range []struct {
		section, name string
		cells         int
		want          []string
	}{
		{"overhead", "throughput", 3, []string{"host 64 1", "tsn 64 1", "flannel 64 1"}},
		{"overhead", "table-1-latency", 1, []string{"tsn", "flannel"}},
		{"best-effort", "latency", 3, []string{"host 64 reliable", "host 64 best effort", "tsn 64 reliable", "tsn 64 best effort", "flannel 64 reliable",
			"flannel 64 best effort"}},
		{"subscribers", "latency", 3, []string{"host 3 unicast", "host 3 multicast", "tsn 3 unicast", "tsn 3 multicast", "flannel 3 unicast"}},
		{"security", "throughput", 2, []string{"tsn encrypt-rtps"}},
	} {
		if rows := rowsOf(t, summary, table.section, table.name, table.cells); !slices.Equal(rows, table.want) {
			t.Errorf("%s of %s: %q", table.name, table.section, rows)
		}
	}
	if len(summary.Problems) > 0 {
		t.Errorf("problems: %q", summary.Problems)
	}
}

func TestMissingProgramIsReported(t *testing.T) {
	for name, test := range map[string]struct{ profile, want string }{
		"iperf3": {"paths: [host]\nexperiment: throughput\nwith: {tests: [udp]}\n", "iperf3 is not installed here; as root: apt-get install iperf3"},
		"ping":   {"paths: [host]\nexperiment: throughput\nwith: {tests: [ping]}\n", "ping is not installed here; as root: apt-get install iputils-ping"},
		"ddsperf": {"paths: [host]\nexperiment: dds\nwith: {parts: [overhead]}\n",
			"ddsperf is not installed here; as root: apt-get install cyclonedds-tools"},
		"openssl": {"paths: [host]\nexperiment: dds\nwith: {parts: [security], security-paths: [host], levels: [encrypt-rtps]}\n",
			"openssl is not installed here; as root: apt-get install openssl"},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "bench")
			command, output := benchCommand(t, test.profile, out)
			command.Env = append(os.Environ(), "PATH="+t.TempDir())
			if err := command.Run(); err == nil || !strings.Contains(output.String(), test.want) {
				t.Errorf("%v: %s", err, output)
			}
			if count := len(runFiles(t, out)); count > 0 {
				t.Errorf("%d runs are kept", count)
			}
		})
	}
}
