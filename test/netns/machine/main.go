// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Machine is the first process of a virtual machine with one network device. It echoes each frame of the tests' EtherType. It puts
// a record with the transmit time N in front of a frame with the text "at N".
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
)

const (
	// carriedEtherType and recordEtherType are those of the tests.
	carriedEtherType = 0x88b6
	recordEtherType  = 0x88b5
	recordVersion    = 1
	priority         = 3
	headerBytes      = 14
	addressBytes     = 6
)

func main() {
	fmt.Fprintln(os.Stderr, "machine:", run())
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// run answers until an error.
func run() error {
	if err := guestmachine.LoadModules("/modules"); err != nil {
		return err
	}
	device, err := networkDevice()
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	protocol := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, carriedEtherType))
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: device.Attrs().Index}); err != nil {
		return fmt.Errorf("bind the packet socket: %w", err)
	}
	fmt.Println("machine: ready")
	return answer(fd, device.Attrs().HardwareAddr)
}

// networkDevice waits for a device other than loopback and sets it up.
func networkDevice() (netlink.Link, error) {
	for range 100 {
		links, err := netlink.LinkList()
		if err != nil {
			return nil, fmt.Errorf("list network devices: %w", err)
		}
		for _, link := range links {
			if link.Attrs().Flags&net.FlagLoopback == 0 {
				return link, netlink.LinkSetUp(link)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, errors.New("there is no network device")
}

func answer(fd int, mac net.HardwareAddr) error {
	frame := make([]byte, 2048)
	for {
		count, from, err := unix.Recvfrom(fd, frame, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if link, _ := from.(*unix.SockaddrLinklayer); link == nil || link.Pkttype == unix.PACKET_OUTGOING || count < headerBytes {
			continue
		}
		back := bytes.Clone(frame[:count])
		copy(back, frame[addressBytes:2*addressBytes])
		copy(back[addressBytes:], mac)
		var at uint64
		if _, err := fmt.Sscanf(string(back[headerBytes:]), "at %d", &at); err == nil {
			back = append(record(back, at), back...)
		}
		if _, err := unix.Write(fd, back); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
}

// record returns the record of a frame with a transmit time (datapath/capture/record.h).
func record(frame []byte, at uint64) []byte {
	recorded := binary.BigEndian.AppendUint16(bytes.Clone(frame[:2*addressBytes]), recordEtherType)
	return binary.BigEndian.AppendUint64(append(recorded, recordVersion, priority), at)
}
