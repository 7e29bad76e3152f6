// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// TestTimeStampsOfTimedMessages reads the time stamps of messages with a transmit time: each message has one of when it
// was handed over, and one of when it left.
func TestTimeStampsOfTimedMessages(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.startDaemon(t)
	const count, headers, text = 20, 42, 4
	for mode, want := range map[string]struct{ first, frame int }{
		"option":  {0, 0},
		"message": {0, 0},
		"number":  {1000, 0},
		"frame":   {0, headers + text},
		"off":     {0, 0}, // turned off while the messages wait
	} {
		t.Run(mode, func(t *testing.T) {
			command := exec.Command(python(t), "testdata/stamps.py", topology.PodAddressB.String(), strconv.Itoa(listenPort), strconv.Itoa(count), mode)
			command.Env = lab.preloaded(t)
			var expected strings.Builder
			for number := range count {
				fmt.Fprintf(&expected, "1 %d %d in time\n0 %d %d in time\n", want.first+number, want.frame, want.first+number, want.frame)
			}
			if got := lab.outputOf(t, patience, command); got != expected.String() {
				t.Errorf("the time stamps are\n%s", got)
			}
		})
	}
}
