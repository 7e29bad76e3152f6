// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

func TestAChangeOfRecordsIsSeenOnce(t *testing.T) {
	of := records{t.TempDir()}
	changes := &Changes{StateDir: of.dir}
	first := &record{Version: recordVersion, Attachment: overlay.Attachment{Network: "tsn", ContainerID: "a", Interface: "tsn0"}}
	second := &record{Version: recordVersion, Attachment: overlay.Attachment{Network: "tsn", ContainerID: "b", Interface: "tsn0"}}
	for _, step := range []struct {
		sentence string
		do       func() error
		want     bool
	}{
		{"it was never asked", func() error { return nil }, true},
		{"nothing has happened", func() error { return nil }, false},
		{"the first record of a network is written", func() error { return of.write(first) }, true},
		{"nothing has happened since", func() error { return nil }, false},
		{"another one is written", func() error { return of.write(second) }, true},
		{"one is removed", func() error { return of.remove(&first.Attachment) }, true},
		{"the last one is removed", func() error { return of.remove(&second.Attachment) }, true},
		{"nothing is left", func() error { return nil }, false},
	} {
		time.Sleep(10 * time.Millisecond) // longer than the kernel's clock for files stands still
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := changes.Any(); got != step.want {
			t.Errorf("%s: it says %v", step.sentence, got)
		}
	}
}
