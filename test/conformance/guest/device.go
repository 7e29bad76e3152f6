// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

const (
	lowerName  = "lower"
	deviceName = "upper"
	// longestFrame is the MTU: messages may be as long as an IPv4 packet, in one frame.
	longestFrame = 65535
)

// device is a network device with a queue for each class, whose frames go nowhere. A macvlan because taprio takes
// limits for frames (max-sdu) only on a device that states its largest MTU, which a dummy does not; neither states
// a speed.
type device struct {
	lower, upper netlink.Link
}

func newDevice() (_ *device, err error) {
	lower := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: lowerName, MTU: longestFrame}}
	if err := netlink.LinkAdd(lower); err != nil {
		return nil, fmt.Errorf("make device %s: %w", lowerName, err)
	}
	made := &device{lower: lower}
	success := false
	defer func() {
		if !success {
			err = errors.Join(err, made.remove())
		}
	}()
	made.upper = &netlink.Macvlan{Mode: netlink.MACVLAN_MODE_PRIVATE, LinkAttrs: netlink.LinkAttrs{
		Name: deviceName, ParentIndex: lower.Index, MTU: longestFrame, NumTxQueues: scenario.Classes}}
	if err := netlink.LinkAdd(made.upper); err != nil {
		return nil, fmt.Errorf("make device %s: %w", deviceName, err)
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.IP(source[:]), Mask: net.CIDRMask(24, 32)}}
	if err := errors.Join(netlink.LinkSetARPOff(made.upper), netlink.LinkSetUp(lower),
		netlink.LinkSetUp(made.upper), netlink.AddrAdd(made.upper, address)); err != nil {
		return nil, fmt.Errorf("set up device %s: %w", deviceName, err)
	}
	success = true
	return made, nil
}

// remove takes its qdiscs and upper device with it.
func (d *device) remove() error {
	if err := netlink.LinkDel(d.lower); err != nil {
		return fmt.Errorf("remove device %s: %w", lowerName, err)
	}
	return nil
}

// configure runs lines of tc.
func configure(lines []string) error {
	command := exec.Command(tcProgram, "-batch", "-")
	command.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("tc: %w: %s; it was told: %s", err, strings.TrimSpace(string(output)),
			strings.Join(lines, "; "))
	}
	return nil
}

// backlog is the number of frames in the device's qdiscs.
func backlog() (int, error) {
	output, err := exec.Command(tcProgram, "-s", "-j", "qdisc", "show", "dev", deviceName).Output()
	if err != nil {
		return 0, fmt.Errorf("tc -s qdisc show: %w", err)
	}
	var qdiscs []struct {
		Root bool `json:"root"`
		Held int  `json:"qlen"`
	}
	if err := json.Unmarshal(output, &qdiscs); err != nil {
		return 0, fmt.Errorf("tc -s qdisc show: %w", err)
	}
	for _, qdisc := range qdiscs {
		if qdisc.Root {
			return qdisc.Held, nil
		}
	}
	return 0, errors.New("tc -s qdisc show: the device has no root qdisc")
}
