// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestNobodyIsWellBeforeSayingSo(t *testing.T) {
	var said []string
	board := New(func(part string, err error) {
		text := part + " well"
		if err != nil {
			text = part + " " + err.Error()
		}
		said = append(said, text)
	}, "kubelet", "ktsnd")
	if err := board.Check(nil); err == nil || err.Error() != "not ready: ktsnd: not started yet; kubelet: not started yet" {
		t.Errorf("at the start: %v", err)
	}
	board.Set("kubelet", nil)
	board.Set("ktsnd", errors.New("does not\nanswer"))
	board.Set("ktsnd", errors.New("does not\nanswer"))
	if err := board.Check(nil); err == nil || err.Error() != "not ready: ktsnd: does not; answer" {
		t.Errorf("with one that is not well: %v", err)
	}
	answer := httptest.NewRecorder()
	board.ServeHTTP(answer, nil)
	if answer.Code != 500 || answer.Body.String() != "ktsnd: does not; answer\nkubelet: ok\n" {
		t.Errorf("answered %d %q", answer.Code, answer.Body)
	}
	board.Set("ktsnd", nil)
	if err := board.Check(nil); err != nil {
		t.Errorf("with all well: %v", err)
	}
	answer = httptest.NewRecorder()
	board.ServeHTTP(answer, nil)
	if answer.Code != 200 {
		t.Errorf("answered %d", answer.Code)
	}
	if got := strings.Join(said, ", "); got != "kubelet well, ktsnd does not\nanswer, ktsnd well" {
		t.Errorf("told %q; the second time is no change", got)
	}
}
