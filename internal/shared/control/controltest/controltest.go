// SPDX-License-Identifier: Apache-2.0

// Package controltest provides a fake of ktsnd's control socket for tests.
package controltest

import (
	"net"
	"path/filepath"
	"sync"
	"testing"
)

// Serve answers each request on a new control socket with the result of answer; "" sends no answer. It serves one connection at a time.
// stop waits until the clients have closed their connections; the test calls it at its end.
func Serve(t testing.TB, answer func(request []byte) string) (socket string, stop func()) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "control.sock")
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn, answer)
		}
	}()
	stop = sync.OnceFunc(func() {
		listener.Close()
		<-ended
	})
	t.Cleanup(stop)
	return socket, stop
}

func serve(conn net.Conn, answer func(request []byte) string) {
	defer conn.Close()
	buffer := make([]byte, 64<<10)
	for {
		count, err := conn.Read(buffer)
		if err != nil || count == 0 {
			return
		}
		if reply := answer(buffer[:count]); reply != "" {
			if _, err := conn.Write([]byte(reply)); err != nil {
				return
			}
		}
	}
}
