// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// refused is a count of so many datagrams that were dropped.
func refused(datagrams uint64, programs ...capture.Program) capture.Count {
	return capture.Count{Attached: true, Refused: map[string]uint64{capture.ReasonNotCaptured: datagrams}, Programs: programs}
}

func TestEventForBypassingProgram(t *testing.T) {
	pod := runningPod(true, "")
	watcher, events := newWatcher(pod, &fakeKtsnd{{Identity: "uid", Path: "/x", Endpoints: 1}}, nil)
	var now capture.Count
	var refuse error
	total := map[string]uint64{}
	watcher.Guards = func() ([]attachment.Guarded, error) {
		attachmentOf := func(uid string) overlay.Attachment {
			return overlay.Attachment{Identity: uid, ContainerID: uid, Interface: "tsn0"}
		}
		return []attachment.Guarded{{Attachment: attachmentOf("uid"), Count: now}, {Attachment: attachmentOf("another"), Count: refused(9)}}, refuse
	}
	watcher.Dropped = func(namespace, name string, more uint64) { total[namespace+"/"+name] += more }
	python := []capture.Program{{Name: "py\x1b", Refused: 3, PID: 4}}
	for _, step := range []struct {
		sentence string
		now      capture.Count
		refuse   error
		want     string
		total    uint64
	}{
		{"nothing is dropped", capture.Count{Attached: true}, nil, "", 0},
		{"nobody knows by whom", refused(1), nil, "Warning TSNMessageUnseen Messages with a transmit time of an unknown program", 1},
		{"it is known", refused(4, python...), nil, `of program "py\x1b" (process 4) did not come through libktsn.so, and tsn0 does not let them out, because they would leave early: nothing is captured on this network. Have them captured`, 4},
		{"it goes on", refused(5, python...), nil, "", 5},
		{"it cannot all be looked at", refused(6, python...), errors.New("another is not there"), "", 6},
		{"the filter is another", refused(2, python...), nil, "", 8},
	} {
		now, refuse = step.now, step.refuse
		testlab.Must(t, watcher.Check(t.Context()))
		if got := next(events); (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%s: the Event is %q, want %q", step.sentence, got, step.want)
		}
		if got := total["default/p"]; got != step.total || len(total) > 1 {
			t.Errorf("%s: counted %v, want %d", step.sentence, total, step.total)
		}
	}
}

func TestRestoredFilterIsReported(t *testing.T) {
	watcher, _ := newWatcher(runningPod(true, ""), &fakeKtsnd{{Identity: "uid", Path: "/x", Endpoints: 1}}, nil)
	restored := 0
	watcher.Restored = func() { restored++ }
	for _, back := range []bool{false, true, false} {
		watcher.Guards = func() ([]attachment.Guarded, error) { return []attachment.Guarded{{Back: back}}, nil }
		testlab.Must(t, watcher.Check(t.Context()))
	}
	if restored != 1 {
		t.Errorf("it was told %d times", restored)
	}
}

func TestEventForDroppedFrames(t *testing.T) {
	watcher, events := newWatcher(runningPod(true, ""), &fakeKtsnd{{Identity: "uid", Path: "/x", Endpoints: 1}}, nil)
	var now capture.PortCount
	watcher.Guards = func() ([]attachment.Guarded, error) {
		key := overlay.Attachment{Identity: "uid", ContainerID: "uid", Interface: "tsn0"}
		return []attachment.Guarded{{Attachment: key, Count: capture.Count{Attached: true, Mode: capture.All}, Port: now}}, nil
	}
	total := map[string]uint64{}
	watcher.Diverted = func(_, _, result string, more uint64) { total[result] += more }
	for _, step := range []struct {
		sentence string
		now      capture.PortCount
		want     string
		total    string
	}{
		{"the relay gets it all", capture.PortCount{Timed: 3}, "", "map[]"},
		{"there was no relay", capture.PortCount{NoRelay: 2, Passed: 5},
			"Warning TSNMessageUnseen 2 messages with a transmit time were captured at tsn0 and dropped on the node, because no relay ran", "map[drop-no-relay:2 passed:5]"},
		{"nor is there one now", capture.PortCount{NoRelay: 3, Passed: 5}, "", "map[drop-no-relay:3 passed:5]"},
		{"segments have one time", capture.PortCount{NoRelay: 3, Passed: 5, Segments: 1}, "because one transmit time stood for several segments",
			"map[drop-no-relay:3 drop-segments:1 passed:5]"},
		{"the program is another", capture.PortCount{Passed: 1}, "", "map[drop-no-relay:3 drop-segments:1 passed:6]"},
	} {
		now = step.now
		testlab.Must(t, watcher.Check(t.Context()))
		if got := next(events); (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%s: the Event is %q, want %q", step.sentence, got, step.want)
		}
		if got := fmt.Sprint(total); got != step.total {
			t.Errorf("%s: counted %s, want %s", step.sentence, got, step.total)
		}
	}
}

func TestCapturedPodIsNotInspected(t *testing.T) {
	for name, test := range map[string]struct {
		modes []capture.Mode
		want  bool
	}{
		"all of it is":                      {[]capture.Mode{capture.Timed, capture.All}, true},
		"one of its interfaces is not":      {[]capture.Mode{capture.Timed, capture.None}, false},
		"it has no interface with a filter": {nil, false},
	} {
		var interfaces []attachment.Guarded
		for _, mode := range test.modes {
			interfaces = append(interfaces, attachment.Guarded{Count: capture.Count{Attached: true, Mode: mode}})
		}
		if got := captured(interfaces); got != test.want {
			t.Errorf("%s: captured is %v", name, got)
		}
	}
}
