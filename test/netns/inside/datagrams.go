// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net"
	"time"
)

// largest exceeds the size of every datagram.
const largest = 1 << 16

// echo returns datagrams of both families to their senders until it is killed.
func echo(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: echo :PORT")
	}
	address, err := net.ResolveUDPAddr("udp", arguments[0])
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	for buffer := make([]byte, largest); ; {
		length, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err == nil {
			_, err = conn.WriteToUDPAddrPort(buffer[:length], from)
		}
		if err != nil {
			return err
		}
	}
}

// ask sends datagrams of several lengths to an echo, each until its answer arrives.
func ask(arguments []string) error {
	flags := flag.NewFlagSet("ask", flag.ExitOnError)
	to := flags.String("to", "", "address and port")
	most := flags.Int("most", 1, "the longest payload")
	_ = flags.Parse(arguments) // it ends the program
	conn, err := net.Dial("udp", *to)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, length := range []int{1, *most / 2, *most} {
		if err := askOnce(conn, bytes.Repeat([]byte{byte(length)}, length)); err != nil {
			return fmt.Errorf("%d bytes: %w", length, err)
		}
	}
	return nil
}

func askOnce(conn net.Conn, payload []byte) (err error) {
	buffer := make([]byte, largest)
	for range 10 { // the network may lose datagrams
		if _, err = conn.Write(payload); err != nil {
			return err
		}
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
		var length int
		if length, err = conn.Read(buffer); err == nil && bytes.Equal(buffer[:length], payload) {
			return nil
		}
	}
	return errors.Join(errors.New("no echo is what was sent"), err)
}
