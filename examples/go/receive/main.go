// SPDX-License-Identifier: Apache-2.0

// Receive prints when datagrams of send arrive: receive PORT COUNT.
//
// The latency is the arrival, a time stamp of the kernel, less the transmit time in the datagram. It is as exact as the
// two nodes' clocks agree.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const timeout = 30 * time.Second

// taiOffset returns CLOCK_TAI minus CLOCK_REALTIME, which time stamps have: whole seconds, 0 where nobody has set TAI.
func taiOffset() time.Duration {
	var realtime, tai unix.Timespec
	if err := errors.Join(unix.ClockGettime(unix.CLOCK_REALTIME, &realtime), unix.ClockGettime(unix.CLOCK_TAI, &tai)); err != nil {
		log.Fatalf("read the clocks: %v", err)
	}
	return time.Duration(tai.Nano() - realtime.Nano()).Round(time.Second)
}

// arrival returns the time stamp of a datagram on CLOCK_TAI.
func arrival(control []byte) (int64, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, err
	}
	for i := range messages {
		var stamp unix.Timespec
		if messages[i].Header.Level == unix.SOL_SOCKET && messages[i].Header.Type == unix.SCM_TIMESTAMPNS &&
			len(messages[i].Data) >= int(unsafe.Sizeof(stamp)) {
			stamp = *(*unix.Timespec)(unsafe.Pointer(&messages[i].Data[0]))
			return stamp.Nano() + int64(taiOffset()), nil
		}
	}
	return 0, errors.New("a datagram has no time stamp")
}

// open opens a port of both families for time-stamped datagrams.
func open(port int) (*net.UDPConn, error) {
	connection, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
	if err != nil {
		return nil, err
	}
	raw, err := connection.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	return connection, errors.Join(err, failed)
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: receive PORT COUNT")
	}
	port, portErr := strconv.Atoi(os.Args[1])
	count, countErr := strconv.Atoi(os.Args[2])
	if err := errors.Join(portErr, countErr); err != nil {
		log.Fatal(err)
	}
	connection, err := open(port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening")
	for received := 0; received < count; {
		payload, control := make([]byte, 2048), make([]byte, 512)
		err := connection.SetReadDeadline(time.Now().Add(timeout))
		if err != nil {
			log.Fatal(err)
		}
		length, controlLength, _, from, err := connection.ReadMsgUDP(payload, control)
		if err != nil {
			log.Fatalf("%d of %d datagrams received: %v", received, count, err)
		}
		if length < 16 || !bytes.HasPrefix(payload, []byte("KTSN")) {
			log.Printf("a datagram of %d bytes from %v is not of send", length, from)
			continue
		}
		at, err := arrival(control[:controlLength])
		if err != nil {
			log.Fatal(err)
		}
		received++
		latency := at - int64(binary.BigEndian.Uint64(payload[8:]))
		fmt.Printf("%d: arrived at %d, latency %.1f us\n", binary.BigEndian.Uint32(payload[4:]), at, float64(latency)/1000)
	}
}
