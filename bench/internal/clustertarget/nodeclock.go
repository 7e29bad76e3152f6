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

// nodeResource are the objects in which agents write what holds on their nodes.
const nodeResource = "tsnnodes"

// ofClocks is the right without which only ktsnd can say how wrong a node's clock may be.
var ofClocks = right{verb: "get", group: v1alpha1.GroupVersion.Group, resource: nodeResource}

// reading is what is said of a node's clock at one time.
type reading struct {
	// bound of the clock's error; below zero: not known.
	bound time.Duration
	// state of the clock, and why it is no better where somebody says that.
	state, why string
	// steps are the jumps of the clock that were seen so far, by ktsnd or by its agent, who began to look at other times.
	steps   int64
	byKtsnd bool
	// follows is what the clock follows, and tai by how many seconds its CLOCK_TAI is ahead of UTC, as the agent has written; "": it has not.
	follows, tai string
}

// steppedSince tells that somebody has set the clock since an earlier reading, as far as both can tell.
func (r reading) steppedSince(earlier reading) bool {
	return r.byKtsnd == earlier.byKtsnd && r.steps > earlier.steps
}

// notKnown is a reading of nothing.
func notKnown(why string) reading { return reading{bound: -1, why: why} }

func (r reading) known() bool { return r.bound >= 0 }

// ktsndClock is what ktsnd says of the estimate that its agent gave it. An older ktsnd has none of it.
type ktsndClock struct {
	State *string `json:"state"`
	// ErrorBoundNs has grown since by as much as the clock may have drifted; below zero: not known.
	ErrorBoundNs *int64 `json:"error-bound-ns"`
	Steps        int64  `json:"steps"`
}

// reading is false where ktsnd is too old to say. Beside such a ktsnd a newer ktsn writes an empty state.
func (c *ktsndClock) reading() (reading, bool) {
	if c.State == nil || *c.State == "" || c.ErrorBoundNs == nil {
		return reading{}, false
	}
	return reading{bound: time.Duration(max(*c.ErrorBoundNs, -1)), state: *c.State, steps: c.Steps, byKtsnd: true}, true
}

// clockOf is what the agent has written of its node's clock.
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

// readWritten reads what the agent of a node has written of its clock. Bounds there are rounded up.
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

// haveOneClock tells whether two nodes run on one kernel, which has one CLOCK_TAI.
func haveOneClock(on nodes) bool {
	boot := on.talkers.Status.NodeInfo.BootID
	return boot != "" && boot == on.listeners.Status.NodeInfo.BootID
}

// end is one of the nodes between which is measured, and who can say how wrong its clock may be.
type end struct {
	node string
	// ktsnd is nil where it cannot be asked.
	ktsnd *corev1.Pod
	// written tells that what the agent writes may be read; mayNot says why not.
	written bool
	mayNot  string
	// unseen says why nobody can tell whether the agent runs that has written it; "": it can be seen.
	unseen string
}

// lookForClocks finds out who can be asked about the clocks. Nobody needs to be where both nodes have one.
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

// lookForBothKtsnds finds ktsnd of both nodes, where it may be asked. Path tsn has it on both.
func (l *Target) lookForBothKtsnds(ctx context.Context) error {
	if l.oneClock || l.ktsnd == nil {
		return nil
	}
	l.ends[0].ktsnd = l.ktsnd
	var err error
	l.ends[1].ktsnd, err = l.findKtsnd(ctx, l.on.listeners.Name)
	return err
}

// readExact asks ktsnd of an end, or, where that cannot say, reads what the agent has written. What the clock follows ktsnd does not know.
func (l *Target) readExact(ctx context.Context, source *end) (reading, error) {
	if source.ktsnd != nil {
		status, err := l.askKtsnd(ctx, source.ktsnd)
		if err != nil {
			return reading{}, err
		}
		if reported, ok := status.Clock.reading(); ok && reported.known() {
			if rough, err := l.readRough(ctx, source); err == nil {
				reported.follows, reported.tai = rough.follows, rough.tai
			}
			return reported, nil
		}
	}
	return l.readWatched(ctx, source)
}

// readWatched reads what the agent has written, if the agent is there: nobody else writes that the error has grown.
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

// readRough reads what the agent has written, whenever that was.
func (l *Target) readRough(ctx context.Context, source *end) (reading, error) {
	if !source.written {
		return notKnown(source.mayNot), nil
	}
	return l.readWritten(ctx, source.node)
}

// aboutEnds says what is estimated of both clocks, for a report.
func aboutEnds(at [2]end, readings [2]reading) string {
	var text strings.Builder
	for i := range readings {
		text.WriteString(" " + capital(sentenceOf(at[i].node, readings[i])) + ".")
	}
	return text.String()
}

// sentenceOf says how wrong a node's clock may be.
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
