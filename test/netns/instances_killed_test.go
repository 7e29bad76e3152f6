// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// stepsBefore are those of a hand-over before everything is the successor's.
var stepsBefore = []string{stepRequest, stepFirst, stepEnd, stepReady, stepStands}

// underLoad has a talker send a message a millisecond while change does something to the instances, and checks that none was lost
// or came twice. What may have left when a ktsnd was killed is uncertain: change adds what those before the last have counted, and
// returns the client of the last.
func (l *lab) underLoad(t *testing.T, change func(before *sum) *control.Client) {
	t.Helper()
	running := l.startFlow(t, "--lead", "50ms", "--cycle", "1ms")
	var total sum
	client := change(&total)
	awaitTaken(t, client, 200)
	total.add(running.end(t, client))
	running.checkConserved(t, total)
}

// killAt starts an instance that takes over by a relay, at which a victim dies when the hand-over comes to a step. The message that
// begins the step is not passed on, but for the last: what was sent in one socket arrives, whoever dies.
func (l *lab) killAt(t *testing.T, name, at string, victim func(successor *instance) *process.Process) *instance {
	t.Helper()
	target := l.control
	l.control = filepath.Join(l.dir, name+".sock")
	var once sync.Once
	var mu sync.Mutex
	var successor *instance
	killed := make(chan *process.Process, 1)
	die := func() {
		mu.Lock()
		defer mu.Unlock()
		dies := victim(successor)
		_ = syscall.Kill(dies.PID(), syscall.SIGKILL)
		killed <- dies
	}
	mu.Lock()
	var passing *relay
	ready := make(chan struct{})
	passing = startRelay(t, l.control, target, func(m message) bool {
		if step(m) != at {
			return true
		}
		<-ready
		go once.Do(func() { passing.close(); die() })
		return at == stepTaken
	})
	close(ready)
	successor = l.startInstance(t, name)
	mu.Unlock()
	select {
	case dead := <-killed:
		_ = finish(t, dead)
	case <-time.After(patience):
		t.Fatalf("the hand-over did not come to %s; the successor says: %s", at, successor.Stderr())
	}
	// Where the socket is that was there before, or the successor's own.
	if at == stepTaken || victim(successor) == successor.Process {
		l.control = target
	}
	return successor
}

// Until it has said that it has everything, the end of a successor changes nothing.
func TestSuccessorKilledAtAnyStepLosesNothing(t *testing.T) {
	content(t)
	lab := newLab(t)
	serving, client := lab.startServing(t, "serving")
	lab.underLoad(t, func(*sum) *control.Client {
		before := statusOf(t, client)
		for n, at := range stepsBefore {
			awaitTaken(t, client, counters(t, client).Taken+50)
			lab.killAt(t, fmt.Sprintf("successor-%d", n), at, func(successor *instance) *process.Process { return successor.Process })
			client = connect(t, serving.Process, lab.control)
			if after, err := client.Status(t.Context()); err != nil || after.PID != before.PID {
				t.Fatalf("killed at %s, it left %+v, %v", at, after, err)
			}
		}
		lab.killAt(t, "successor-last", stepTaken, func(successor *instance) *process.Process { return successor.Process })
		client = connect(t, serving.Process, lab.control)
		lab.attach(t, client, serving.Process)
		serving.awaitState(t, control.StateServing)
		return client
	})
}

// The successor starts without what its predecessor had; applications hand their rings to it.
func TestPredecessorKilledAtAnyStepLosesNothing(t *testing.T) {
	content(t)
	lab := newLab(t)
	serving, client := lab.startServing(t, "instance-first")
	lab.underLoad(t, func(before *sum) *control.Client {
		for n, at := range append(slices.Clone(stepsBefore), stepTaken) {
			awaitTaken(t, client, counters(t, client).Taken+50)
			before.add(counters(t, client))
			dies := serving
			serving = lab.killAt(t, fmt.Sprintf("instance-%d", n), at, func(*instance) *process.Process { return dies.Process })
			serving.awaitState(t, control.StateServing)
			client = connect(t, serving.Process, lab.control)
			lab.attach(t, client, serving.Process)
		}
		return client
	})
}
