// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// flowCookie marks our flows: "ktsn".
const flowCookie = 0x6b74736e

// settle does what is not in the database, once its ports are there: the address, flows, and who the peers are.
// Repeating it changes nothing. Peers are greeted when there may be new ones, or the address is new.
func (s *Switch) settle(ctx context.Context, plan *Plan, anew bool) error {
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
	if moved || anew {
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
			all = errors.Join(all, fmt.Errorf("ovs-vswitchd cannot open %s (%s): %s", port.name, port.describe(), said))
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
	var flows []string
	for _, name := range ktsndPorts {
		from := d.interfaces[name].text("ofport")
		flows = append(flows, fmt.Sprintf("priority=50,in_port=%s actions=drop", from))
		for _, vni := range plan.Networks {
			pods := d.interfaces[switchName(vni)].text("ofport")
			flows = append(flows, fmt.Sprintf("priority=100,in_port=%s,dl_vlan=%d actions=strip_vlan,load:0x%s->NXM_OF_IN_PORT[],NORMAL",
				from, vni, hexadecimal(pods)))
		}
	}
	slices.Sort(flows)
	return flows
}

func hexadecimal(number string) string {
	var value uint32
	_, _ = fmt.Sscan(number, &value) // portErrors has seen it
	return strconv.FormatUint(uint64(value), 16)
}

// flows makes ours those that are wanted, all at once, and keeps what is for everybody from ktsnd, who reads nothing.
func (s *Switch) flows(ctx context.Context, plan *Plan, have *database) error {
	wanted := have.wantedFlows(plan)
	printed, err := s.ofctl(ctx, "dump-flows", "", fmt.Sprintf("cookie=%#x/-1", flowCookie))
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
	if _, err := s.ofctl(ctx, "add-flows", bundle.String(), "--bundle", "-"); err != nil {
		return err
	}
	for _, name := range ktsndPorts {
		if _, err := s.ofctl(ctx, "mod-port", "", have.interfaces[name].text("ofport"), "no-flood"); err != nil {
			return err
		}
	}
	return nil
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

// greet tells everybody where the tunnel's address is, and has the kernel find the peers' hardware addresses, by way of Open vSwitch, which learns them from the answers.
// Else the first frame to each would be lost for it. Nobody need listen.
func greet(ctx context.Context, plan *Plan) {
	_ = announce(BridgePhysical, plan.Address.Addr()) // else they find out when they ask again
	forgetNeighbors(plan)                             // or nobody would be asked
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

// keepInterval is how soon a restart of Open vSwitch is seen; what somebody else removes is looked for less often.
const (
	keepInterval = 250 * time.Millisecond
	keepLook     = 10 * time.Second
)

// Renew brings back what ends with ovs-vswitchd, which is another one since Setup.
func (s *Switch) Renew(ctx context.Context, plan *Plan) error {
	if err := s.Setup(ctx, plan); err != nil {
		return err
	}
	greet(ctx, plan)
	return nil
}

// Incarnation tells one ovs-vswitchd from the next, which makes its sockets anew; "" when there is none.
func (s *Switch) Incarnation() string {
	socket, err := os.Stat(s.managementSocket())
	if err != nil {
		return ""
	}
	return socket.ModTime().String()
}

// Keep goes on setting up what ends with ovs-vswitchd, until ctx does, and says what it did and what it cannot.
func (s *Switch) Keep(ctx context.Context, plan *Plan, say io.Writer) error {
	known, looked, last := s.Incarnation(), time.Now(), ""
	for retry.Pause(ctx, keepInterval) == nil {
		now := s.Incarnation()
		anew := now != known || !hasAddress(plan)
		if now == "" || (!anew && last == "" && time.Since(looked) < keepLook) {
			continue
		}
		err := s.settle(ctx, plan, anew)
		looked = time.Now()
		switch {
		case ctx.Err() != nil:
		case err != nil && err.Error() != last:
			fmt.Fprintf(say, "Open vSwitch is not as it was set up: %v\n", err)
			last = err.Error()
		case err == nil && anew:
			fmt.Fprintln(say, "Open vSwitch was started anew and is set up again")
			known, last = now, ""
		case err == nil:
			last = ""
		}
	}
	return nil
}
