// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// A program of a pod can have network namespaces of its own, with loopback and nothing of ktsnd's. What it sends there is the
// kernel's, with a transmit time or without.
func TestNamespaceWithoutEndpointUsesKernel(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	send := func(environment []string) string {
		t.Helper()
		command := exec.Command("unshare", "--net", "sh", "-c", `ip link set lo up && exec "$0" "$@"`,
			program(t, "ktsn-test-send"), "--unconnected", "127.0.0.1", strconv.Itoa(listenPort), "5000:first", "-:none", "6000:second")
		command.Env = environment
		var output []byte
		if err := lab.PodA.Do(func() (err error) { output, err = runFor(patience, command); return err }); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		return saidOf(string(output))
	}
	want := send(nil)
	if want != "5 0, 4 0, 6 0" {
		t.Fatalf("the kernel itself says %q", want)
	}
	if got := send(lab.preloaded(t)); got != want {
		t.Errorf("results are %q, the kernel's %q", got, want)
	}
	if now := awaitSettled(t, client); now.KernelPath != 2 || now.Taken != 0 {
		t.Errorf("%d messages went the kernel's way and %d through ktsnd, want 2 and 0", now.KernelPath, now.Taken)
	}
}

// saidOf is what ktsn-test-send says of each message, but for its transmit times.
func saidOf(output string) string {
	var all []string
	for line := range strings.Lines(output) {
		if _, result, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			all = append(all, result)
		}
	}
	return strings.Join(all, ", ")
}
