// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"encoding/json"
	"net"
	"testing"
	"time"
)

// qmp is QEMU's own protocol of control.
type qmp struct {
	conn    net.Conn
	answers *json.Decoder
}

// newQMP takes the greeting.
func newQMP(t *testing.T, conn net.Conn) *qmp {
	t.Helper()
	q := &qmp{conn, json.NewDecoder(conn)}
	var greeting map[string]any
	_ = conn.SetDeadline(time.Now().Add(patience))
	if err := q.answers.Decode(&greeting); err != nil || greeting["QMP"] == nil {
		t.Fatalf("QEMU greets with %v, %v", greeting, err)
	}
	q.do(t, "qmp_capabilities", nil)
	return q
}

// try has QEMU execute a command, and returns the sentence by which it refuses.
func (q *qmp) try(t *testing.T, command string, arguments map[string]any) (refused string) {
	t.Helper()
	_ = q.conn.SetDeadline(time.Now().Add(patience))
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := json.NewEncoder(q.conn).Encode(request); err != nil {
		t.Fatal(err)
	}
	for {
		var answer struct {
			Return any
			Error  *struct{ Desc string }
			Event  string
		}
		if err := q.answers.Decode(&answer); err != nil {
			t.Fatalf("QEMU does not answer %s: %v", command, err)
		}
		switch {
		case answer.Event != "":
		case answer.Error != nil:
			return answer.Error.Desc
		default:
			return ""
		}
	}
}

func (q *qmp) do(t *testing.T, command string, arguments map[string]any) {
	t.Helper()
	if refused := q.try(t, command, arguments); refused != "" {
		t.Fatalf("QEMU refuses %s: %s", command, refused)
	}
}
