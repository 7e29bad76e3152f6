// SPDX-License-Identifier: Apache-2.0

package wiretap

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// awaitStamping waits until the kernel stamps arriving frames. A work queue enables that when the first socket wants
// stamps (net_enable_timestamp in net/core/dev.c), and may get no processor for a while. The kernel then stamps until
// the process ends.
var awaitStamping = sync.OnceValue(func() error {
	done := make(chan error, 1)
	// In another thread: the caller's may be in a network namespace without loopback.
	go func() { done <- probeStamping() }()
	return <-done
})

// probeStamping sends datagrams over loopback until one has a stamp. Its socket stays open.
func probeStamping() error {
	const patience = 10 * time.Second
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("bind to loopback: %w", err)
	}
	self, err := unix.Getsockname(fd)
	if err != nil {
		return fmt.Errorf("find the socket's address: %w", err)
	}
	stamps := unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, stamps); err != nil {
		return fmt.Errorf("ask for stamps: %w", err)
	}
	timeout := unix.NsecToTimeval(patience.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return fmt.Errorf("set a timeout: %w", err)
	}
	control := make([]byte, 256)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if err := unix.Sendto(fd, nil, 0, self); err != nil {
			return fmt.Errorf("send over loopback: %w", err)
		}
		_, controlBytes, _, _, err := unix.Recvmsg(fd, nil, control, 0)
		if err != nil {
			return fmt.Errorf("receive over loopback: %w", err)
		}
		// The kernel adds no control message for a datagram without a stamp.
		if controlBytes > 0 {
			return nil
		}
	}
	return fmt.Errorf("the kernel has not begun to stamp frames for %v", patience)
}
