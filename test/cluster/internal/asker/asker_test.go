// SPDX-License-Identifier: Apache-2.0

package asker

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// answers starts a server on a loopback address. It runs until the test ends or the socket is closed.
func answers(t *testing.T, address string) *net.UDPConn {
	t.Helper()
	at, err := net.ResolveUDPAddr("udp4", address)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenUDP("udp4", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	go func() {
		buffer := make([]byte, 256)
		for {
			length, from, err := socket.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			text := strings.TrimPrefix(string(buffer[:length]), "echo ")
			if _, err := socket.WriteToUDPAddrPort([]byte(text), from); err != nil {
				return
			}
		}
	}()
	return socket
}

func TestGap(t *testing.T) {
	first := answers(t, "127.0.0.1:0")
	port := first.LocalAddr().(*net.UDPAddr).Port
	hosts := filepath.Join(t.TempDir(), "hosts")
	says := func(text string) {
		if err := os.WriteFile(hosts, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	says("# 127.0.0.9 camera\n127.0.0.1 localhost camera # it\n::1 camera\n")
	a := &Asker{Name: "camera", Hosts: hosts, Port: uint16(port), Cycle: 5 * time.Millisecond, Patience: 100 * time.Millisecond}
	ctx, stop := context.WithCancel(t.Context())
	var text strings.Builder
	var ended sync.WaitGroup
	began := time.Now()
	ended.Go(func() {
		if err := a.Run(ctx, &text); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(300 * time.Millisecond)
	first.Close()
	died := time.Now()
	time.Sleep(500 * time.Millisecond)
	answers(t, net.JoinHostPort("127.0.0.2", strings.TrimPrefix(first.LocalAddr().String(), "127.0.0.1:")))
	says("127.0.0.2 camera\n")
	healed := time.Now()
	time.Sleep(300 * time.Millisecond)
	stop()
	ended.Wait()
	rows, err := Read(text.String() + "12 3")
	if err != nil {
		t.Fatal(err)
	}
	findings := Judge(rows, began, time.Now())
	if findings.Gap < healed.Sub(died) || findings.Lost == 0 || findings.Lost == findings.Sent || findings.Sent != len(rows) {
		t.Errorf("nobody answered for %v, and found is %+v of %d rows", healed.Sub(died), findings, len(rows))
	}
	if before := Judge(rows, began, died.Add(-10*time.Millisecond)); before.Sent == 0 || before.Lost > 0 {
		t.Errorf("before it died, found is %+v", before)
	}
	if _, from := Last(rows); from.String() != "127.0.0.2" {
		t.Errorf("the last answer is from %v", from)
	}
}

func TestInvalidRows(t *testing.T) {
	for _, text := range []string{"1 2\n", "1 2 3 nobody\n", "x 2 3 -\n"} {
		if rows, err := Read(text); err == nil {
			t.Errorf("%q is %+v", text, rows)
		}
	}
}
