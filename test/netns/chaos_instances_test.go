// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package netns_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// turmoil is a node whose instances replace each other and are killed while an application sends.
type turmoil struct {
	*lab
	serving *instance
	client  *control.Client
	started int
	killed  int
	// deaths are those of instances that served. Others may cost no message.
	deaths []death
	pauses []time.Duration
}

func (u *turmoil) nextName() string {
	u.started++
	return fmt.Sprintf("instance-%d", u.started)
}

// replace has the next instance take over, and returns the one that stands by.
func (u *turmoil) replace(t *testing.T) *instance {
	t.Helper()
	before := u.serving
	u.serving, u.client = u.upgrade(t, before, u.nextName())
	u.pauses = append(u.pauses, paused(t, u.serving.Process))
	return before
}

// dies notes when one that served was killed.
func (u *turmoil) dies(kill func()) {
	from := clockTAI()
	kill()
	u.deaths = append(u.deaths, death{from, clockTAI()})
}

// continueWith waits until an instance serves after one that was killed, and attaches pod a to it as the agent does.
func (u *turmoil) continueWith(t *testing.T, serving *instance) {
	t.Helper()
	serving.awaitState(t, control.StateServing)
	u.serving, u.client = serving, connect(t, serving.Process, u.control)
	u.attach(t, u.client, serving.Process)
}

func (u *turmoil) killWhoStandsBy(t *testing.T) {
	t.Helper()
	kill(t, u.replace(t).Process)
}

func (u *turmoil) killWhoServes(t *testing.T) {
	t.Helper()
	older := u.replace(t)
	u.dies(func() { kill(t, u.serving.Process) })
	u.continueWith(t, older)
}

// killSuccessor kills it at a step of its hand-over.
func (u *turmoil) killSuccessor(t *testing.T, at string) {
	t.Helper()
	older := u.serving
	die := func() {
		u.killAt(t, u.nextName(), at, func(successor *instance) *process.Process { return successor.Process })
	}
	if at == stepTaken { // it serves already
		u.dies(die)
		u.continueWith(t, older)
		return
	}
	die()
	u.client = connect(t, older.Process, u.control)
}

// killPredecessor kills it at a step of its hand-over.
func (u *turmoil) killPredecessor(t *testing.T, at string) {
	t.Helper()
	older := u.serving
	var successor *instance
	u.dies(func() {
		successor = u.killAt(t, u.nextName(), at, func(*instance) *process.Process { return older.Process })
	})
	u.continueWith(t, successor)
	if at == stepTaken { // it was started for the relay's socket, at which it would look for others when it stands by
		u.replace(t).told(t)
	}
}

// turn is what happens in a round: each in turn, kills in a hand-over at each step in turn.
func (u *turmoil) turn(t *testing.T, round int) {
	t.Helper()
	const ways = 5
	steps := append([]string{stepTaken}, stepsBefore...)
	at := steps[round/ways%len(steps)]
	switch round % ways {
	case 0:
		u.replace(t).told(t)
		return
	case 1:
		u.killWhoStandsBy(t)
	case 2:
		u.killWhoServes(t)
	case 3:
		u.killSuccessor(t, at)
	case 4:
		u.killPredecessor(t, at)
	}
	u.killed++
}

var numbers = regexp.MustCompile(`[0-9]+`)

// open is what the process that serves has open, without the numbers that differ.
func (u *turmoil) open(t *testing.T) []string {
	t.Helper()
	all := keptOpen(t, statusOf(t, u.client).PID)
	for i, path := range all {
		all[i] = numbers.ReplaceAllString(path, "")
	}
	slices.Sort(all)
	return all
}

// checkOpen waits until the process that serves has no more open than another had.
func (u *turmoil) checkOpen(t *testing.T, before []string) {
	t.Helper()
	for deadline := time.Now().Add(patience); len(u.open(t)) > len(before); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("the last to serve has open\n%q, one at the beginning had\n%q", u.open(t), before)
			return
		}
	}
}

// checkGone checks that no process and no socket is left when all instances have ended.
func (u *turmoil) checkGone(t *testing.T) {
	t.Helper()
	if left := process.Find(u.dir); len(left) != 0 {
		t.Errorf("processes are left: %v", left)
	}
	for _, path := range []string{u.control, u.socket, filepath.Join(u.serving.folder, "probe.sock")} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

// Pods are replaced, are ended and die in any order, also in the middle of a hand-over.
func TestChaosOfInstances(t *testing.T) {
	const rounds = 60 // each way of dying in a hand-over twice
	u := &turmoil{lab: newLab(t)}
	u.serving, u.client = u.startServing(t, "instance-0")
	running := u.startFlow(t, "--lead", "50ms", "--cycle", "1ms")
	awaitTaken(t, u.client, 50)
	u.killWhoServes(t) // a ring that was handed back has a descriptor more
	u.replace(t).told(t)
	awaitTaken(t, u.client, 50)
	before := u.open(t)
	for round := range rounds {
		awaitTaken(t, u.client, counters(t, u.client).Taken+50)
		time.Sleep(rand.N(20 * time.Millisecond))
		u.turn(t, round)
		u.awaitInstance(t, u.serving.name)
	}
	u.replace(t).told(t)
	awaitTaken(t, u.client, 50)
	u.checkOpen(t, before)
	checkBooks(t, running.end(t, u.client))
	missing := running.checkExplained(t, u.deaths)
	u.serving.told(t)
	u.checkGone(t)
	record(t,
		reported("instances that took over under load, or were to", float64(u.started), "instances"),
		reported("kills of instances under load", float64(u.killed), "kills"),
		reported("messages beside them", float64(len(running.sent)), "messages"),
		limited("messages missing for each kill of one that served", float64(missing)/float64(len(u.deaths)), "messages", 1),
		reported("instances: pause in departures at a takeover, p50", milliseconds(quantile(u.pauses, 0.5)), "ms"),
		reported("instances: pause in departures at a takeover, max", milliseconds(quantile(u.pauses, 1)), "ms"))
}
