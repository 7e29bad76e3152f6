// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// setModified sets the modification time of the folder of a network's records, if it is there.
func setModified(t *testing.T, store recordStore, network string, modified time.Time) {
	t.Helper()
	if err := os.Chtimes(store.folder(network), modified, modified); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

func recordOf(network, containerID string) *Record {
	return &Record{Version: recordVersion, Attachment: overlay.Attachment{Network: network, ContainerID: containerID, Interface: "tsn0"}}
}

func TestChanges(t *testing.T) {
	store := recordStore{t.TempDir()}
	changes := &Changes{StateDir: store.dir}
	first, second := recordOf("tsn", "a"), recordOf("tsn", "b")
	settled := time.Now().Add(-time.Hour)
	for i, step := range []struct {
		sentence string
		do       func() error // nil: nothing happens
		want     bool
	}{
		{"it was never asked", nil, true},
		{"nothing has happened", nil, false},
		{"the first record of a network is written", func() error { return store.write(first) }, true},
		{"nothing has happened since", nil, false},
		{"another one is written", func() error { return store.write(second) }, true},
		{"one is removed", func() error { return store.remove(&first.Attachment) }, true},
		{"the last one is removed", func() error { return store.remove(&second.Attachment) }, true},
		{"nothing is left", nil, false},
	} {
		if step.do != nil {
			testlab.Must(t, step.do())
			setModified(t, store, "tsn", settled.Add(time.Duration(i)*time.Second))
		}
		if got := changes.Any(); got != step.want {
			t.Errorf("%s: it says %v", step.sentence, got)
		}
	}
}

// TestChangesSameTick: two records can be written while the kernel's clock for files stands still, the second after the look.
func TestChangesSameTick(t *testing.T) {
	store := recordStore{t.TempDir()}
	changes, sandboxes := &Changes{StateDir: store.dir}, &SandboxList{StateDir: store.dir}
	tick := time.Now()
	for _, containerID := range []string{"a", "b"} {
		r := recordOf(SandboxNetwork, containerID)
		r.Identity = containerID
		testlab.Must(t, store.write(r))
		setModified(t, store, SandboxNetwork, tick)
		if !changes.Any() {
			t.Errorf("record %s is not noticed", containerID)
		}
		if changed, err := sandboxes.Refresh(); err != nil || len(changed) != 1 || changed[0] != containerID {
			t.Errorf("record %s: the sandboxes that changed are %v: %v", containerID, changed, err)
		}
		time.Sleep(2 * settleAfter) // the next look is late
	}
}

func TestReplacedRecords(t *testing.T) {
	netns := t.TempDir()
	for name, test := range map[string]struct {
		gone    []string       // containers whose network namespace is gone
		indexes map[string]int // of the ports
		want    string
	}{
		"the younger record replaces":          {want: "a"},
		"the younger port replaces":            {indexes: map[string]int{"a": 9, "b": 5}, want: "b"},
		"a port does not decide alone":         {indexes: map[string]int{"a": 9}, want: "a"},
		"one that is gone replaces nothing":    {gone: []string{"b"}, want: "b"},
		"one that is gone is replaced":         {gone: []string{"a"}, want: "a"},
		"nothing is replaced if both are gone": {gone: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := recordStore{t.TempDir()}
			var records []*Record
			indexes := map[string]int{}
			for i, containerID := range []string{"a", "b", "other", "another interface"} {
				r := recordOf("tsn", containerID)
				r.Identity, r.Netns = "uid", netns
				switch {
				case containerID == "other":
					r.Identity = "other"
				case containerID == "another interface":
					r.Interface = "tsn1"
				case slices.Contains(test.gone, containerID):
					r.Netns = filepath.Join(netns, "gone")
				}
				testlab.Must(t, store.write(r))
				written := time.Now().Add(time.Duration(i) * time.Minute)
				testlab.Must(t, os.Chtimes(store.path(&r.Attachment), written, written))
				indexes[r.PortName()] = test.indexes[containerID]
				records = append(records, r)
			}
			for _, order := range [][]*Record{records, {records[3], records[2], records[1], records[0]}} {
				var replaced []string
				for r, isReplaced := range store.replacedRecords(order, indexes) {
					if isReplaced {
						replaced = append(replaced, r.ContainerID)
					}
				}
				if got := strings.Join(replaced, ","); got != test.want {
					t.Errorf("replaced are %q, want %q", got, test.want)
				}
			}
		})
	}
}
