// SPDX-License-Identifier: Apache-2.0

//go:build guest

package inside

import (
	"strconv"
	"testing"
)

// The static CPU manager assigns the processor through the cpuset controller of version 2.
func TestExclusiveProcessor(t *testing.T) {
	end(t, "agent", "ktsnd") // kubelet has one processor for all pods, without the one that it reserves
	pod := chartsPod(t, "exclusive.yaml", "ktsnd")
	pod.Name = "exclusive" // kubelet waits for long before it starts a static pod of a name that another one had
	start(t, pod)
	want := strconv.Itoa(exclusiveProcessor)
	if got := cgroupFile(t, pod.Name, "cpuset.cpus"); got != want {
		t.Errorf("cpuset.cpus is %q, want %s", got, want)
	}
	if got := cgroupFile(t, pod.Name, "cpuset.cpus.effective"); got != want {
		t.Errorf("cpuset.cpus.effective is %q, want %s", got, want)
	}
	if len(realTimeThreads(t, pod.Name)) == 0 {
		t.Error("no thread of ktsnd has SCHED_FIFO")
	}
}
