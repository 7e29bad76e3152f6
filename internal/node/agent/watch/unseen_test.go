// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/node/cni"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/unseen"
)

func TestAnEventNamesTheProgramThatSendsPastTheLibrary(t *testing.T) {
	pod := runningPod(true, "")
	watcher, events := newWatcher(pod, &fakeKtsnd{{Identity: "uid", Path: "/x", Endpoints: 1}}, nil)
	var now unseen.Count
	var refuse error
	total := map[string]uint64{}
	watcher.Unseen = func() ([]cni.Guarded, error) {
		of := func(uid string) overlay.Attachment {
			return overlay.Attachment{Identity: uid, ContainerID: uid, Interface: "tsn0"}
		}
		return []cni.Guarded{{Attachment: of("uid"), Count: now}, {Attachment: of("another"), Count: unseen.Count{Datagrams: 9}}}, refuse
	}
	watcher.Dropped = func(namespace, name string, more uint64) { total[namespace+"/"+name] += more }
	python := []unseen.Program{{Name: "py\x1b", Datagrams: 3, PID: 4}}
	for _, step := range []struct {
		sentence string
		now      unseen.Count
		refuse   error
		want     string
		total    uint64
	}{
		{"nothing is dropped", unseen.Count{Guarded: true}, nil, "", 0},
		{"nobody knows by whom", unseen.Count{Datagrams: 1}, nil, "Warning TSNMessageUnseen Messages with a transmit time of a program that could not be told", 1},
		{"it is known", unseen.Count{Datagrams: 4, Programs: python}, nil, `of program "py\x1b" (process 4) did not come through libktsn.so, and tsn0 does not let them out`, 4},
		{"it goes on", unseen.Count{Datagrams: 5, Programs: python}, nil, "", 5},
		{"it cannot all be looked at", unseen.Count{Datagrams: 6, Programs: python}, errors.New("another is not there"), "", 6},
		{"the filter is another", unseen.Count{Datagrams: 2, Programs: python}, nil, "", 8},
	} {
		now, refuse = step.now, step.refuse
		if err := watcher.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := next(events); (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%s: the Event is %q, want %q", step.sentence, got, step.want)
		}
		if got := total["default/p"]; got != step.total || len(total) > 1 {
			t.Errorf("%s: counted %v, want %d", step.sentence, total, step.total)
		}
	}
}
