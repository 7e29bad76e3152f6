// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

const (
	lowerName  = "lower"
	deviceName = "upper"
	// longestFrame is the MTU: messages may be as long as an IPv4 packet, in one frame.
	longestFrame = 65535
)

// device is a network device with a queue for each class, whose frames go nowhere: a bridge with a dummy device.
// Neither reports a speed. The dummy alone would not suffice, because taprio accepts a limit for frames (max-sdu) only
// on a device that reports its maximum MTU.
type device struct {
	lower, upper netlink.Link
}

func newDevice() (_ *device, err error) {
	// A bridge with multicast snooping sends frames of its own.
	quiet := false
	created := &device{
		lower: &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: lowerName, MTU: longestFrame}},
		upper: &netlink.Bridge{MulticastSnooping: &quiet, LinkAttrs: netlink.LinkAttrs{Name: deviceName,
			MTU: longestFrame, NumTxQueues: scenario.Classes}},
	}
	if err := netlink.LinkAdd(created.upper); err != nil {
		return nil, fmt.Errorf("make device %s: %w", deviceName, err)
	}
	success := false
	defer func() {
		if !success {
			err = errors.Join(err, created.remove())
		}
	}()
	if err := netlink.LinkAdd(created.lower); err != nil {
		return nil, fmt.Errorf("make device %s: %w", lowerName, err)
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.IP(source[:]), Mask: net.CIDRMask(24, 32)}}
	if err := errors.Join(netlink.LinkSetMaster(created.lower, created.upper), netlink.LinkSetARPOff(created.upper),
		netlink.LinkSetUp(created.lower), netlink.LinkSetUp(created.upper),
		netlink.AddrAdd(created.upper, address)); err != nil {
		return nil, fmt.Errorf("set up device %s: %w", deviceName, err)
	}
	success = true
	return created, nil
}

// addIPv6 adds an address that can be used at once.
func (d *device) addIPv6() error {
	settings := [][2]string{{"accept_dad", "0"}, {"router_solicitations", "0"}, {"disable_ipv6", "0"}}
	for _, setting := range settings {
		path := "/proc/sys/net/ipv6/conf/" + deviceName + "/" + setting[0]
		if err := os.WriteFile(path, []byte(setting[1]), 0); err != nil {
			return fmt.Errorf("allow IPv6: %w", err)
		}
	}
	address := &netlink.Addr{Flags: unix.IFA_F_NODAD,
		IPNet: &net.IPNet{IP: net.ParseIP("2001:db8::1"), Mask: net.CIDRMask(64, 128)}}
	if err := netlink.AddrAdd(d.upper, address); err != nil {
		return fmt.Errorf("add IPv6 address: %w", err)
	}
	return nil
}

// remove removes the device with its qdiscs.
func (d *device) remove() error {
	var failures []error
	for _, link := range []netlink.Link{d.upper, d.lower} {
		var missing netlink.LinkNotFoundError
		if err := netlink.LinkDel(link); err != nil && !errors.As(err, &missing) {
			failures = append(failures, fmt.Errorf("remove device %s: %w", link.Attrs().Name, err))
		}
	}
	return errors.Join(failures...)
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

// backlog returns the number of frames in the device's qdiscs. It counts only qdiscs without children: etf does not
// report later drops to its parent, which keeps counting them.
func backlog() (int, error) {
	output, err := exec.Command(tcProgram, "-s", "-j", "qdisc", "show", "dev", deviceName).Output()
	if err != nil {
		return 0, fmt.Errorf("tc -s qdisc show: %w", err)
	}
	var qdiscs []struct {
		Handle string `json:"handle"`
		Parent string `json:"parent"`
		Held   int    `json:"qlen"`
	}
	if err := json.Unmarshal(output, &qdiscs); err != nil {
		return 0, fmt.Errorf("tc -s qdisc show: %w", err)
	}
	parents := map[string]bool{}
	for _, qdisc := range qdiscs {
		major, _, _ := strings.Cut(qdisc.Parent, ":")
		parents[major+":"] = true
	}
	held := 0
	for _, qdisc := range qdiscs {
		if !parents[qdisc.Handle] {
			held += qdisc.Held
		}
	}
	return held, nil
}
