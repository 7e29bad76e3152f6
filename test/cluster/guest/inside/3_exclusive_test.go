// SPDX-License-Identifier: Apache-2.0

//go:build guest

package inside

import (
	"strconv"
	"testing"
)

// The static CPU manager gives it the processor, by the cpuset of version 2.
func TestKtsndHasAProcessorOfItsOwn(t *testing.T) {
	end(t, "ktsnd")
	start(t, chartsKtsnd(t, "exclusive.yaml"))
	want := strconv.Itoa(exclusiveProcessor)
	if got := cgroupFile(t, "cpuset.cpus"); got != want {
		t.Errorf("cpuset.cpus is %q, want %s", got, want)
	}
	if got := cgroupFile(t, "cpuset.cpus.effective"); got != want {
		t.Errorf("cpuset.cpus.effective is %q, want %s", got, want)
	}
	if len(realTimeThreads(t)) == 0 {
		t.Error("no thread of ktsnd has SCHED_FIFO")
	}
}
