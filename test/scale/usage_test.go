// SPDX-License-Identifier: Apache-2.0

//go:build thousand

package scale

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// usage is what a process had used when it was looked at.
type usage struct {
	at  time.Time
	cpu time.Duration
}

func usageOf(t testing.TB, pid int) usage {
	t.Helper()
	cpu, err := process.CPUTime(pid)
	must(t, err)
	return usage{time.Now(), cpu}
}

// cores is how much of a processor a process used between two looks.
func cores(before, after usage) float64 {
	return float64(after.cpu-before.cpu) / float64(after.at.Sub(before.at))
}

// mostResident is the most memory that a process has had, in bytes.
func mostResident(t testing.TB, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, isPeak := strings.CutPrefix(line, "VmHWM:"); isPeak {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			must(t, err)
			return kib << 10
		}
	}
	t.Fatalf("/proc/%d/status says nothing of VmHWM", pid)
	return 0
}

func (w *world) usage() parts {
	w.t.Helper()
	all := parts{operator: usageOf(w.t, w.operator.PID()), agents: usageOf(w.t, w.agents.PID())}
	for name, to := range map[string]*usage{"kube-apiserver": &all.server, "etcd": &all.etcd} {
		pid, err := w.child(name)
		must(w.t, err)
		*to = usageOf(w.t, pid)
	}
	return all
}

// parts are the processes of the cluster.
type parts struct{ operator, agents, server, etcd usage }

func (p parts) since(before parts) string {
	return fmt.Sprintf("operator %.2f, all agents %.2f, API server %.2f, etcd %.2f cores over %v",
		cores(before.operator, p.operator), cores(before.agents, p.agents), cores(before.server, p.server), cores(before.etcd, p.etcd),
		p.operator.at.Sub(before.operator.at).Round(100*time.Millisecond))
}
