// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"syscall"
	"testing"
	"time"
)

// With the strategies etf an application is told whose fault it was: the kernel looks at a message in the call, and so a
// message that was handed over in time is missed, however late ktsnd comes to take it, and no wrong parameter.
func TestMessageTakenLateCountsAsMissed(t *testing.T) {
	timing(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t, "--strategy", "etf")
	lab.listenForTexts(t)
	const lead = 300 * time.Millisecond // so long that no disturbance of the machine keeps the call from coming in time
	asker := lab.startAskerAhead(t, "blocking", lead)
	asker.expect(t, "socket", "made")
	signal(t, daemon, syscall.SIGSTOP)
	asker.expect(t, "send", "sent")
	time.Sleep(lead + 100*time.Millisecond)
	signal(t, daemon, syscall.SIGCONT)
	asker.expect(t, "report", "ECANCELED")
	asker.expect(t, "past", "sent")
	asker.expect(t, "report", "EINVAL")
	asker.ends(t)
	if counted := awaitSettled(t, client); counted.DropMissed != 1 || counted.DropTxtime != 1 {
		t.Errorf("ktsnd counts %+v", counted)
	}
}
