// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/test/conformance/txtime"
)

const (
	casesFile    = "/txtime-cases.json"
	casesProgram = "/txtime"
	// textBytes of a message identify it.
	textBytes = 22
)

// caseReceiver does not exist: messages are captured when they leave.
var caseReceiver = txtime.Receiver{IPv4: netip.AddrFrom4(destination), IPv6: netip.MustParseAddr("2001:db8::2"),
	Port: port, Interface: deviceName}

// caseQdiscs are the qdiscs for the cases of a setup. 300 µs exceed the time of a dequeue here.
var caseQdiscs = map[txtime.Setup][]string{
	txtime.Any: nil,
	txtime.ETF: {"qdisc replace dev " + deviceName + " root etf clockid CLOCK_TAI delta 300000"},
	txtime.ETFSlow: {
		"qdisc replace dev " + deviceName + " root handle 100: tbf rate 1mbit burst 1500 limit 100000000",
		"qdisc replace dev " + deviceName + " parent 100:1 etf clockid CLOCK_TAI delta 300000"},
	txtime.ETFDeadline: {"qdisc replace dev " + deviceName + " root etf clockid CLOCK_TAI delta 300000 deadline_mode"},
}

// runCases runs the cases of the file, if there is one.
func runCases(reports *json.Encoder) error {
	content, err := os.ReadFile(casesFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read cases: %w", err)
	}
	var cases []txtime.Case
	if err := json.Unmarshal(content, &cases); err != nil {
		return fmt.Errorf("read cases: %w", err)
	}
	for _, tested := range cases {
		report := txtime.Report{Case: tested}
		if err := runCase(tested, &report); err != nil {
			report.Failure = err.Error()
		}
		if err := reports.Encode(report); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	return nil
}

func runCase(tested txtime.Case, report *txtime.Report) (err error) {
	device, err := newDevice()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.remove()) }()
	if tested.Family == txtime.IPv6 {
		if err := device.addIPv6(); err != nil {
			return err
		}
	}
	if qdiscs := caseQdiscs[tested.Setup]; len(qdiscs) > 0 {
		if err := configure(qdiscs); err != nil {
			return err
		}
	}
	capture, err := openCapture()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, capture.close()) }()
	output, err := exec.Command(casesProgram, tested.Arguments(caseReceiver)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	arrived, err := capture.texts()
	report.Facts = txtime.FactsOf(tested, string(output), arrived)
	return err
}

// texts returns the messages that left.
func (c *capture) texts() ([]string, error) {
	var texts []string
	for {
		frame, _, err := c.read()
		if errors.Is(err, unix.EAGAIN) {
			return texts, c.complete()
		}
		if err != nil {
			return nil, fmt.Errorf("capture: %w", err)
		}
		text, err := textOf(frame)
		if err != nil {
			return nil, err
		}
		if text == nil {
			continue
		}
		if len(text) > textBytes {
			text = text[:textBytes]
		}
		texts = append(texts, strings.TrimRight(string(text), "\x00"))
	}
}

// textOf returns the application's data in a frame, nil for the kernel's own IPv6 frames.
func textOf(frame []byte) ([]byte, error) {
	const ethernet, ipv6 = 14, 40
	if len(frame) < ethernet+ipv6 {
		frame = append(frame, make([]byte, ethernet+ipv6-len(frame))...)
	}
	switch binary.BigEndian.Uint16(frame[12:]) {
	case txtime.EtherType:
		return frame[ethernet:], nil
	case unix.ETH_P_IP:
		return frame[idAt:], nil
	case unix.ETH_P_IPV6:
		if next := frame[ethernet+6]; next != unix.IPPROTO_UDP {
			return nil, nil
		}
		return frame[idAt+ipv6-20:], nil
	}
	return nil, fmt.Errorf("a frame that is no message of ours: % x", frame)
}
