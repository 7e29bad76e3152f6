// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
)

// flowCookie marks our flows: "ktsn".
const flowCookie = 0x6b74736e

// settle does what is not in the database, once its ports are there: the address, flows, and who the peers are.
func (s *Switch) settle(ctx context.Context, plan *Plan) error {
	moved, err := s.address(ctx, plan)
	if err != nil {
		return err
	}
	have, err := s.read(ctx)
	if err != nil {
		return err
	}
	if err := have.portErrors(plan); err != nil {
		return err
	}
	if err := s.flows(ctx, plan, have); err != nil {
		return err
	}
	if moved {
		greet(ctx, plan)
	}
	return nil
}

// portErrors is what Open vSwitch says of ports that it cannot open.
func (d *database) portErrors(plan *Plan) error {
	var all error
	for _, port := range plan.ports() {
		one := d.interfaces[port.name]
		if said := one.text("error"); said != "" {
			all = errors.Join(all, fmt.Errorf("Open vSwitch cannot open %s (%s): %s", port.name, port.describe(), said))
		} else if number := one.text("ofport"); number == "" || number == "-1" {
			all = errors.Join(all, fmt.Errorf("%s (%s) has no number in Open vSwitch yet", port.name, port.describe()))
		}
	}
	return all
}

func (p *port) describe() string {
	for _, key := range []string{"dpdk-devargs", "vhost-server-path", "remote_ip"} {
		if value := p.options[key]; value != "" {
			return value
		}
	}
	return "a veth"
}

// wantedFlows are flows as ovs-ofctl prints them.
func (d *database) wantedFlows(plan *Plan) []string {
	from := d.interfaces[ktsndPort].text("ofport")
	flows := []string{fmt.Sprintf("priority=50,in_port=%s actions=drop", from)}
	for _, vni := range plan.Networks {
		pods := d.interfaces[switchName(vni)].text("ofport")
		flows = append(flows, fmt.Sprintf("priority=100,in_port=%s,dl_vlan=%d actions=strip_vlan,load:0x%s->NXM_OF_IN_PORT[],NORMAL",
			from, vni, hexadecimal(pods)))
	}
	slices.Sort(flows)
	return flows
}

func hexadecimal(number string) string {
	var value uint32
	_, _ = fmt.Sscan(number, &value) // portErrors has seen it
	return fmt.Sprintf("%x", value)
}

// flows makes ours those that are wanted, all at once, and keeps what is for everybody from ktsnd, who reads nothing.
func (s *Switch) flows(ctx context.Context, plan *Plan, have *database) error {
	wanted := have.wantedFlows(plan)
	printed, err := s.ofctl(ctx, BridgeInternal, "dump-flows", "", fmt.Sprintf("cookie=%#x/-1", flowCookie))
	if err != nil {
		return err
	}
	if slices.Equal(parseFlows(string(printed)), wanted) {
		return nil
	}
	var bundle strings.Builder
	fmt.Fprintf(&bundle, "delete cookie=%#x/-1\n", flowCookie)
	for _, flow := range wanted {
		fmt.Fprintf(&bundle, "add cookie=%#x,%s\n", flowCookie, strings.Replace(flow, " actions", ",actions", 1))
	}
	if _, err := s.ofctl(ctx, BridgeInternal, "add-flows", bundle.String(), "--bundle", "-"); err != nil {
		return err
	}
	_, err = s.ofctl(ctx, BridgeInternal, "mod-port", "", have.interfaces[ktsndPort].text("ofport"), "no-flood")
	return err
}

// parseFlows reads what ovs-ofctl prints, without the cookie.
func parseFlows(printed string) []string {
	var flows []string
	for line := range strings.Lines(printed) {
		line = strings.TrimSpace(line)
		if rest, found := strings.CutPrefix(line, fmt.Sprintf("cookie=%#x, ", flowCookie)); found {
			flows = append(flows, rest)
		}
	}
	slices.Sort(flows)
	return flows
}

// greet has the kernel find the peers' hardware addresses, by way of Open vSwitch, which learns them from the answers.
// Else the first frame to each would be lost for it. Nobody need listen.
func greet(ctx context.Context, plan *Plan) {
	dialer := net.Dialer{LocalAddr: &net.UDPAddr{IP: plan.Address.Addr().AsSlice()}, Timeout: time.Second}
	for _, peer := range plan.Peers {
		const discard = "9"
		connection, err := dialer.DialContext(ctx, "udp4", net.JoinHostPort(peer.String(), discard))
		if err != nil {
			continue // there is no way to it, which whoever sends to it hears
		}
		_, _ = connection.Write([]byte{0})
		connection.Close()
	}
}

// keepInterval is how long Open vSwitch is without address after its restart, at most; flows are looked at less often.
const (
	keepInterval = 250 * time.Millisecond
	keepFlows    = 10 * time.Second
)

// Keep goes on setting up what ends with ovs-vswitchd, until ctx does, and says what it did and what it cannot.
func (s *Switch) Keep(ctx context.Context, plan *Plan, say io.Writer) error {
	last, looked := "", time.Now()
	for {
		if err := pause(ctx, keepInterval); err != nil {
			return nil
		}
		if last == "" && hasAddress(plan) && time.Since(looked) < keepFlows {
			continue
		}
		gone := !hasAddress(plan)
		err := s.settle(ctx, plan)
		looked = time.Now()
		now := ""
		if err != nil && ctx.Err() == nil {
			now = err.Error()
		}
		switch {
		case now != "" && now != last:
			fmt.Fprintf(say, "Open vSwitch is not as it was set up: %s\n", now)
		case now == "" && (last != "" || gone):
			fmt.Fprintln(say, "Open vSwitch was started anew and is set up again")
		}
		last = now
	}
}
