// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestDaemonCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	testlab.Must(t, err)
	for name, read := range map[string]bool{"before it reads": false, "before it answers": true} {
		t.Run(name, func(t *testing.T) {
			go func() {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				if read {
					_, _ = connection.Read(make([]byte, 1000)) // what was asked does not matter
				}
				connection.Close()
			}()
			daemon, err := dialDaemon(t.Context(), path)
			testlab.Must(t, err)
			defer daemon.close()
			if err := daemon.EndpointDel(t.Context(), "pod", "tsn0"); !cutOff(err) || ended(err) {
				t.Errorf("got %v", err)
			}
		})
	}
	listener.Close()
	if _, err := dialDaemon(t.Context(), path); !ended(err) || cutOff(err) {
		t.Errorf("got %v of one that does not run", err)
	}
}
