// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// fakeKtsnd serves one connection with the replies of answer. The returned function closes it and returns the requests.
func fakeKtsnd(t *testing.T, answer func(request string) string) (Link, func() []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.sock")
	listener, err := net.Listen("unixpacket", path)
	testlab.Must(t, err)
	received := make(chan []string, 1)
	go func() {
		var requests []string
		defer func() { received <- requests }()
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buffer := make([]byte, 4096)
		for {
			count, err := conn.Read(buffer)
			if err != nil || count == 0 {
				return
			}
			var request struct{ Request, Identity, Name string }
			if err := json.Unmarshal(buffer[:count], &request); err != nil {
				t.Error(err)
			}
			requests = append(requests, strings.TrimSpace(fmt.Sprint(request.Request, " ", request.Identity, " ", request.Name)))
			if _, err := conn.Write([]byte(answer(request.Request))); err != nil {
				return
			}
		}
	}()
	return Link{Path: path}, func() []string { listener.Close(); return <-received }
}

func TestSocketAdd(t *testing.T) {
	const ok = `{"version":1,"reply":"ok"}`
	refused := func(field string) string {
		return fmt.Sprintf(`{"version":1,"error":{"field":%q,"message":"no"}}`, field)
	}
	both := []string{"socket-add uid", "pod-name-set uid default/app"}
	for name, test := range map[string]struct {
		socket, name string
		fails        bool
		requests     []string
	}{
		"added":                 {ok, ok, false, both},
		"the socket is refused": {refused("path"), ok, true, both[:1]},
		"the name is refused":   {ok, refused("name"), true, both},
	} {
		t.Run(name, func(t *testing.T) {
			link, requests := fakeKtsnd(t, func(request string) string {
				if request == "socket-add" {
					return test.socket
				}
				return test.name
			})
			if err := link.SocketAdd(t.Context(), "uid", "/run/x", "default/app"); (err != nil) != test.fails {
				t.Error(err)
			}
			if got := requests(); !slices.Equal(got, test.requests) {
				t.Errorf("asked for %q, want %q", got, test.requests)
			}
		})
	}
}
