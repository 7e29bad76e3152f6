// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// nodeResource are the objects in which agents report the state of their nodes.
const nodeResource = "tsnnodes"

// ofClocks is the right without which only ktsnd reports the error of a node's clock.
var ofClocks = right{verb: "get", group: v1alpha1.GroupVersion.Group, resource: nodeResource}

// reading is a report about a node's clock at one time.
type reading struct {
	// bound is the limit of the clock's error; negative: unknown.
	bound time.Duration
	// state is the clock's state; the other field is why it is no better, if that is known.
	state, why string
	// steps counts the jumps of the clock that ktsnd or its agent has seen, since different times.
	steps   int64
	byKtsnd bool
	// follows is the clock's source, and tai the seconds by which its CLOCK_TAI is ahead of UTC, by the agent's report;
	// "": unknown.
	follows, tai string
}

// steppedSince reports whether the clock was set since an earlier reading, as far as both know.
func (r reading) steppedSince(earlier reading) bool {
	return r.byKtsnd == earlier.byKtsnd && r.steps > earlier.steps
}

// notKnown is a reading without information.
func notKnown(why string) reading { return reading{bound: -1, why: why} }

func (r reading) known() bool { return r.bound >= 0 }

// clockOf returns the agent's report about its node's clock.
func clockOf(node *v1alpha1.TSNNode) reading {
	clock := node.Status.Clock
	if clock == nil {
		return notKnown("its agent (" + orNone(node.Status.AgentVersion) + ") says nothing of it")
	}
	r := reading{bound: -1, state: clock.State, why: clock.Message, steps: clock.Steps, follows: tsnnetwork.FollowedBy(clock)}
	if clock.TAIOffset != nil {
		r.tai = strconv.Itoa(int(*clock.TAIOffset))
	}
	if clock.ErrorBoundNanoseconds != nil {
		r.bound = time.Duration(*clock.ErrorBoundNanoseconds)
	}
	return r
}

func orNone(version string) string {
	if version == "" {
		return "of no version"
	}
	return version
}

// readWritten reads the report of a node's agent about its clock. Bounds there are rounded up.
func (c *connection) readWritten(ctx context.Context, node string) (reading, error) {
	text, err := c.core.Get().AbsPath("/apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, nodeResource, node).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return notKnown("no agent of KuberneTSN watches it (there is no TSNNode " + node + ")"), nil
	}
	if err != nil {
		return reading{}, c.explain("ask for the clock of node "+node, err)
	}
	var object v1alpha1.TSNNode
	if err := json.Unmarshal(text, &object); err != nil {
		return reading{}, c.explain("understand TSNNode "+node, err)
	}
	return clockOf(&object), nil
}

// haveOneClock reports whether two nodes run on one kernel, which has one CLOCK_TAI.
func haveOneClock(on nodes) bool {
	boot := on.talkers.Status.NodeInfo.BootID
	return boot != "" && boot == on.listeners.Status.NodeInfo.BootID
}

// end is one of the two nodes, with the sources of information about its clock.
type end struct {
	node string
	// ktsnd is nil if it cannot be asked.
	ktsnd *corev1.Pod
	// written: the agent's report may be read; mayNot is why not.
	written bool
	mayNot  string
	// unseen is why it is unknown whether the agent that reported still runs; "": it is known.
	unseen string
}

// lookForClocks finds the sources of information about the clocks. None are needed if both nodes have one clock.
func (l *Target) lookForClocks(ctx context.Context) error {
	if l.oneClock = haveOneClock(l.on); l.oneClock {
		return nil
	}
	lacking, err := l.lacking(ctx, ofClocks)
	if err != nil {
		return err
	}
	blind, err := l.lacking(ctx, l.ofKtsnd()[0])
	if err != nil {
		return err
	}
	for i, node := range []*corev1.Node{l.on.talkers, l.on.listeners} {
		l.ends[i] = end{node: node.Name, written: len(lacking) == 0}
		if len(lacking) > 0 {
			l.ends[i].mayNot = "the user may not " + lacking[0]
		}
		if len(blind) > 0 {
			l.ends[i].unseen = "the user may not " + blind[0] + ", so that nobody can tell whether the agent runs that has written it"
		}
	}
	return nil
}

// lookForBothKtsnds finds ktsnd of both nodes, if it may be asked. Path tsn has it on both.
func (l *Target) lookForBothKtsnds(ctx context.Context) error {
	if l.oneClock || l.ktsnd == nil {
		return nil
	}
	l.ends[0].ktsnd = l.ktsnd
	var err error
	l.ends[1].ktsnd, err = l.findKtsnd(ctx, l.on.listeners.Name)
	return err
}

// readExact asks ktsnd of an end or, if it does not know, reads the agent's report. ktsnd does not know the clock's
// source.
func (l *Target) readExact(ctx context.Context, source *end) (reading, error) {
	if source.ktsnd != nil {
		status, err := l.askKtsnd(ctx, source.ktsnd)
		if err != nil {
			return reading{}, err
		}
		clock := status.Clock // its bound has grown since the agent's report by the clock's possible drift
		reported := reading{bound: time.Duration(clock.ErrorBoundNs), state: string(clock.State), steps: int64(clock.Steps), byKtsnd: true}
		if reported.known() {
			if rough, err := l.readRough(ctx, source); err == nil {
				reported.follows, reported.tai = rough.follows, rough.tai
			}
			return reported, nil
		}
	}
	return l.readWatched(ctx, source)
}

// readWatched reads the agent's report if the agent runs: nobody else reports that the error has grown.
func (l *Target) readWatched(ctx context.Context, source *end) (reading, error) {
	rough, err := l.readRough(ctx, source)
	if err != nil || !rough.known() {
		return rough, err
	}
	if source.unseen != "" {
		return notKnown(source.unseen), nil
	}
	agent, err := l.findPod(ctx, "the agent", metav1.ListOptions{LabelSelector: agentPods, FieldSelector: "spec.nodeName=" + source.node})
	switch {
	case err != nil:
		return reading{}, err
	case agent == nil:
		return notKnown("no agent is ready there, so that what it has written may be old"), nil
	}
	return rough, nil
}

// readRough reads the agent's report, however old.
func (l *Target) readRough(ctx context.Context, source *end) (reading, error) {
	if !source.written {
		return notKnown(source.mayNot), nil
	}
	return l.readWritten(ctx, source.node)
}

// aboutEnds describes the estimates of both clocks for a report.
func aboutEnds(at [2]end, readings [2]reading) string {
	var text strings.Builder
	for i := range readings {
		text.WriteString(" " + capital(sentenceOf(at[i].node, readings[i])) + ".")
	}
	return text.String()
}

// sentenceOf describes the possible error of a node's clock.
func sentenceOf(node string, clock reading) string {
	if !clock.known() {
		text := fmt.Sprintf("the error of the clock of node %s is not known", node)
		if clock.why != "" {
			text += ": " + clock.why
		}
		return text
	}
	text := fmt.Sprintf("the clock of node %s may be wrong by %s µs", node, results.Micros(clock.bound.Nanoseconds()))
	if clock.state != "" && clock.state != "Synchronized" && clock.state != "synchronized" {
		text += " (" + clock.state
		if clock.why != "" {
			text += ": " + clock.why
		}
		text += ")"
	}
	return text
}

func capital(sentence string) string {
	if sentence == "" || sentence[0] < 'a' || sentence[0] > 'z' {
		return sentence
	}
	return string(sentence[0]-'a'+'A') + sentence[1:]
}
