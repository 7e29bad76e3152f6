// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/control/controltest"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// fakeKtsnd answers every request with success and records the requests.
func fakeKtsnd(t *testing.T) (client *control.Client, asked func() []string) {
	t.Helper()
	commands := []string{}
	socket, stop := controltest.Serve(t, func(message []byte) string {
		var request struct {
			Request string `json:"request"`
		}
		if err := json.Unmarshal(message, &request); err != nil {
			t.Errorf("a request is no JSON: %v", err)
		}
		commands = append(commands, request.Request)
		return `{"version": 1, "reply": "ok"}`
	})
	client, err := control.Dial(t.Context(), socket)
	testlab.Must(t, err)
	t.Cleanup(func() { client.Close() })
	return client, func() []string {
		client.Close()
		stop()
		return commands
	}
}

// TestRegisterUndo undoes the registration, as an ADD does of which a later step fails.
func TestRegisterUndo(t *testing.T) {
	client, asked := fakeKtsnd(t)
	dir := t.TempDir()
	s := &Spec{
		Record: Record{
			Attachment: overlay.Attachment{Network: "tsn", ContainerID: "c", Interface: "tsn0", Identity: "uid"}, Netns: "/run/netns/c",
			Overlay: overlay.Network{VNI: 42, Bridge: "tsnbr42"},
		},
		SocketDir: filepath.Join(dir, "pods"), CreateSocket: true,
	}
	s.CompleteRecord()
	a := &adding{Spec: s, store: recordStore{filepath.Join(dir, "state")}, daemon: &daemon{client}}
	testlab.Must(t, a.register(t.Context()))
	if err := a.undoAll(); err != nil {
		t.Error(err)
	}
	if got, want := asked(), []string{"socket-add", "endpoint-add", "endpoint-del", "socket-del"}; !slices.Equal(got, want) {
		t.Errorf("ktsnd was asked for %q, want %q", got, want)
	}
}
