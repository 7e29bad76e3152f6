// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// In a pod ktsnd is started when the interface by which it sends is there, which somebody else makes.
func TestRealtimeAwaitsInterface(t *testing.T) {
	content(t)
	lab := newLab(t)
	begin := func(name string) (*process.Process, *bytes.Buffer) {
		command := exec.Command(program(t, "ktsn-realtime"), "--await", name, "--", "/bin/echo", "started")
		var output bytes.Buffer
		command.Stdout = &output
		return start(t, lab.NodeA, "ktsn-realtime", command), &output
	}
	t.Run("at once where it is there", func(t *testing.T) {
		waiting, output := begin(topology.PhysicalInterface)
		if err := finish(t, waiting); err != nil || output.String() != "started\n" || strings.Contains(waiting.Stderr(), "waiting") {
			t.Errorf("it ended with %v and said %q, %q", err, output, waiting.Stderr())
		}
	})
	t.Run("and not before it is up and has an address", func(t *testing.T) {
		waiting, output := begin("late0")
		awaitLog(t, waiting, "waiting until interface late0 is up and has an IPv4 address")
		for _, step := range [][]string{{"link", "add", "late0", "type", "veth", "peer", "name", "late1"}, {"addr", "add", "192.0.2.77/32", "dev", "late0"}} {
			ip(t, lab.NodeA, step...)
			select {
			case <-waiting.Done():
				t.Fatalf("after %q it has ended: %s", step, waiting.Stderr())
			case <-time.After(300 * time.Millisecond):
			}
		}
		ip(t, lab.NodeA, "link", "set", "late0", "up")
		if err := finish(t, waiting); err != nil || output.String() != "started\n" || strings.Count(waiting.Stderr(), "waiting") != 1 {
			t.Errorf("it ended with %v and said %q, %q", err, output, waiting.Stderr())
		}
	})
}
