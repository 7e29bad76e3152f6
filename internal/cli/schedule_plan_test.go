// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

func TestSchedulePlan(t *testing.T) {
	const example = "../../examples/streams.yaml"
	folder := t.TempDir()
	run := func(arguments ...string) (status int, stdout, stderr string) {
		var out, errors bytes.Buffer
		status = Main(context.Background(), append([]string{"schedule", "plan"}, arguments...), &out, &errors)
		return status, out.String(), errors.String()
	}
	drawing, gates := filepath.Join(folder, "plan.svg"), filepath.Join(folder, "gates")
	status, text, stderr := run("--ascii", "--svg", drawing, "--gates", gates, example)
	if status != 0 || !strings.Contains(text, "setpoints         7      500 us    0 ns       25.952 us ") || !strings.Contains(text, "hall/p3  1 ms    10 ") {
		t.Errorf("status %d, %s%s", status, text, stderr)
	}
	if svg, err := os.ReadFile(drawing); err != nil || !bytes.HasPrefix(svg, []byte("<svg ")) {
		t.Errorf("%v, %.40s", err, svg)
	}
	files, err := filepath.Glob(filepath.Join(gates, "*.yaml"))
	if err != nil || len(files) != 10 {
		t.Errorf("%d tables, %v", len(files), err)
	}
	for _, file := range files {
		document, err := schedule.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := document.Check(1_000_000_000); err != nil {
			t.Error(err)
		}
	}
	status, plan, stderr := run("--output", "json", example)
	running := filepath.Join(folder, "running.json")
	if err := os.WriteFile(running, []byte(plan), 0o644); status != 0 || err != nil {
		t.Fatal(status, stderr, err)
	}
	if status, again, _ := run("--output", "json", "--running", running, example); status != 0 || again != plan {
		t.Error("the streams of the running plan have moved")
	}
	if status, _, stderr := run("--running", example, example); status != 1 || !strings.Contains(stderr, "is no plan of") {
		t.Errorf("status %d, %s", status, stderr)
	}
	if status, _, stderr := run("--topology", example, example); status != 1 || !strings.Contains(stderr, "there is no field streams") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// TestSchedulePlanGatesOfSimilarPorts has two ports whose names differ only in the place of the slash.
func TestSchedulePlanGatesOfSimilarPorts(t *testing.T) {
	folder := t.TempDir()
	gates, file := filepath.Join(folder, "gates"), filepath.Join(folder, "streams.yaml")
	const input = `
topology:
  bridges: [{name: a, delay: 1000}, {name: a-b, delay: 1000}]
  links: [{ends: [x, a/x]}, {ends: [a/b-c, a-b/x]}, {ends: [a-b/c, y]}]
streams:
  - {name: s, talker: x, listeners: [y], interval: {numerator: 1, denominator: 1000}, max-frame-size: 100}
`
	if err := os.WriteFile(file, []byte(input), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	if status := Main(context.Background(), []string{"schedule", "plan", "--gates", gates, file}, &out, &stderr); status != 0 {
		t.Fatal(status, stderr.String())
	}
	for name, port := range map[string]string{"x": "x", "a-b-c": "a-b/c", "a-b-c-2": "a/b-c"} {
		text, err := os.ReadFile(filepath.Join(gates, name+".yaml"))
		if err != nil || !strings.HasPrefix(string(text), "# "+port+"\n") {
			t.Errorf("%s: %v, %.20s", name, err, text)
		}
	}
}

func TestSchedulePlanExports(t *testing.T) {
	folder := t.TempDir()
	bridges, request, prefix := filepath.Join(folder, "bridges"), filepath.Join(folder, "request.json"), filepath.Join(folder, "x")
	var out, stderr bytes.Buffer
	arguments := []string{"schedule", "plan", "--bridges", bridges, "--request", request, "--tsnkit", prefix, "../../examples/streams.yaml"}
	if status := Main(context.Background(), arguments, &out, &stderr); status != 0 {
		t.Fatal(status, stderr.String())
	}
	for _, file := range []string{filepath.Join(bridges, "cell.json"), filepath.Join(bridges, "hall.json"), request, prefix + "-GCL.csv"} {
		if text, err := os.ReadFile(file); err != nil || len(text) == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
}
