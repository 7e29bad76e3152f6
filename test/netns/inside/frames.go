// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// frames sends frames from a file with one per line in hexadecimal digits, past the queueing disciplines.
func frames(arguments []string) error {
	flags := flag.NewFlagSet("frames", flag.ExitOnError)
	device := flags.String("device", "", "interface")
	file := flags.String("file", "", "frames, one a line")
	flood := flags.Duration("flood", 0, "send them again and again for so long; 0: once")
	_ = flags.Parse(arguments) // it ends the program
	all, err := readFrames(*file)
	if err != nil {
		return err
	}
	fd, err := openDevice(*device)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	sent, until := 0, time.Now().Add(*flood)
	for again := true; again; again = time.Now().Before(until) {
		for _, frame := range all {
			err := unix.Send(fd, frame, 0)
			if errors.Is(err, unix.ENOBUFS) {
				continue // the queue is full
			}
			if err != nil {
				return fmt.Errorf("send %x: %w", frame, err)
			}
			sent++
		}
	}
	_, err = fmt.Fprintln(os.Stdout, sent)
	return err
}

func readFrames(path string) (all [][]byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		frame, err := hex.DecodeString(lines.Text())
		if err != nil {
			return nil, err
		}
		all = append(all, frame)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no frames", path)
	}
	return all, nil
}

func openDevice(name string) (int, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: link.Index})
	}
	if err != nil {
		return -1, err
	}
	return fd, nil
}
