// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// fakeKtsnd answers every request as if it had done it, and tells which there were.
func fakeKtsnd(t *testing.T) (client *control.Client, asked func() []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "control.sock")
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	commands, ended := []string{}, make(chan struct{})
	go func() {
		defer close(ended)
		defer listener.Close()
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buffer := make([]byte, 64<<10)
		for {
			count, err := conn.Read(buffer)
			if err != nil || count == 0 {
				return
			}
			var request struct {
				Request string `json:"request"`
			}
			if err := json.Unmarshal(buffer[:count], &request); err != nil {
				t.Errorf("a request is no JSON: %v", err)
			}
			commands = append(commands, request.Request)
			if _, err := conn.Write([]byte(`{"version": 1, "reply": "ok"}`)); err != nil {
				return
			}
		}
	}()
	client, err = control.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return client, func() []string {
		client.Close()
		<-ended
		return commands
	}
}

// TestAnAddThatFailsLateTakesAllBackFromKtsnd undoes the registration, as an ADD does of which a later step fails.
func TestAnAddThatFailsLateTakesAllBackFromKtsnd(t *testing.T) {
	client, asked := fakeKtsnd(t)
	dir := t.TempDir()
	r := &request{
		Config:     &Config{SocketDir: filepath.Join(dir, "pods"), CreateSocket: true, Overlay: overlay.Network{VNI: 42, Bridge: "tsnbr42"}},
		Attachment: overlay.Attachment{Network: "tsn", ContainerID: "c", Interface: "tsn0", Identity: "uid"}, netns: "/run/netns/c",
	}
	a := &adding{request: r, records: records{filepath.Join(dir, "state")}, daemon: &daemon{client}}
	if err := a.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	var err error
	for _, undo := range slices.Backward(a.undo) {
		err = errors.Join(err, undo())
	}
	if err != nil {
		t.Error(err)
	}
	if got, want := asked(), []string{"socket-add", "endpoint-add", "endpoint-del", "socket-del"}; !slices.Equal(got, want) {
		t.Errorf("ktsnd was asked for %q, want %q", got, want)
	}
}
