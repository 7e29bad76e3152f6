// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"strings"
	"testing"
)

func TestBoardIsReadyWhenAllPartsWork(t *testing.T) {
	var changes []string
	board := newBoard(func(part string, err error) {
		text := part + " ok"
		if err != nil {
			text = part + " " + err.Error()
		}
		changes = append(changes, text)
	}, "kubelet", "ktsnd")
	if err := board.check(nil); err == nil || err.Error() != "not ready: ktsnd: not started yet; kubelet: not started yet" {
		t.Errorf("at the start: %v", err)
	}
	board.set("kubelet", nil)
	board.set("ktsnd", errors.New("does not\nanswer"))
	board.set("ktsnd", errors.New("does not\nanswer"))
	if err := board.check(nil); err == nil || err.Error() != "not ready: ktsnd: does not; answer" {
		t.Errorf("with a failed part: %v", err)
	}
	board.set("ktsnd", nil)
	if err := board.check(nil); err != nil {
		t.Errorf("with all parts: %v", err)
	}
	if got := strings.Join(changes, ", "); got != "kubelet ok, ktsnd does not\nanswer, ktsnd ok" {
		t.Errorf("changes: %q; a repeated state is no change", got)
	}
}
