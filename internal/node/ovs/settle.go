// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// flowCookie marks our flows: "ktsn".
const flowCookie = 0x6b74736e

// ktsndAnnouncement matches what the ktsnd of a node sends to those of the others: group_announcement_mac and GROUP_ETHERTYPE in ktsnd.
// Flows take it from the tunnels of peers to the network's veth, where ktsnd listens, and drop it from all other ports. NORMAL would
// drop all of it, unless other_config:forward-bpdu of the bridge is true.
const ktsndAnnouncement = "dl_dst=01:80:c2:00:00:0e,dl_type=0x88b5"

// settle applies the state that is not in the database, after its ports exist: the address and the flows. It is idempotent.
// It greets the peers if restarted is set or the address is new.
func (s *Switch) settle(ctx context.Context, plan *Plan, restarted bool) error {
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
	if moved || restarted {
		greet(ctx, plan)
	}
	return nil
}

// portErrors returns Open vSwitch's errors of ports that it cannot open.
func (d *database) portErrors(plan *Plan) error {
	var all error
	for _, port := range plan.ports() {
		entry := d.interfaces[port.name]
		if message := entry.text("error"); message != "" {
			all = errors.Join(all, fmt.Errorf("ovs-vswitchd cannot open %s (%s): %s", port.name, port.describe(), message))
		} else if number := entry.text("ofport"); number == "" || number == "-1" {
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

// wantedFlows returns our flows in ovs-ofctl's output format, sorted.
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
	flows = append(flows, "priority=110,"+ktsndAnnouncement+" actions=drop")
	for _, vni := range plan.Networks {
		to := d.interfaces[switchName(vni)].text("ofport")
		for _, peer := range plan.Peers {
			from := d.interfaces[tunnelName(vni, peer)].text("ofport")
			flows = append(flows, fmt.Sprintf("priority=120,in_port=%s,%s actions=mod_dl_src:%s,output:%s", from, ktsndAnnouncement, announcementSource(peer), to))
		}
	}
	slices.Sort(flows)
	return flows
}

// announcementSource returns the source address of a peer's announcements at this node. ktsnd takes the peer's address from it
// (peer_of_flow in datapath/daemon/route/groups.c).
func announcementSource(peer netip.Addr) net.HardwareAddr {
	return append(net.HardwareAddr{0x02, 0x00}, peer.AsSlice()...)
}

func hexadecimal(number string) string {
	var value uint32
	_, _ = fmt.Sscan(number, &value) // portErrors has checked it
	return strconv.FormatUint(uint64(value), 16)
}

// flows replaces our flows in one transaction if they differ. It excludes ktsnd's ports, where nothing reads frames, from
// flooding.
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

// parseFlows parses our flows, without the cookie, from the output of ovs-ofctl.
func parseFlows(printed string) []string {
	var flows []string
	for line := range strings.Lines(printed) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, fmt.Sprintf("cookie=%#x, ", flowCookie)); ok {
			flows = append(flows, rest)
		}
	}
	slices.Sort(flows)
	return flows
}

// greet announces the tunnel's address and makes the kernel resolve the peers' hardware addresses through Open vSwitch, which
// learns them from the replies. Otherwise the first frame to each peer would be lost. The peers need not listen.
func greet(ctx context.Context, plan *Plan) {
	_ = announce(BridgePhysical, plan.Address.Addr()) // without it, peers resolve the address again later
	forgetNeighbors(plan)                             // known neighbours would not be resolved
	dialer := net.Dialer{LocalAddr: &net.UDPAddr{IP: plan.Address.Addr().AsSlice()}, Timeout: time.Second}
	for _, peer := range plan.Peers {
		const discard = "9"
		connection, err := dialer.DialContext(ctx, "udp4", net.JoinHostPort(peer.String(), discard))
		if err != nil {
			continue // no route: senders to this peer get the error
		}
		_, _ = connection.Write([]byte{0})
		connection.Close()
	}
}

// keepInterval is the period of the check for a restart of Open vSwitch, keepLook that of the check for removed state.
const (
	keepInterval = 250 * time.Millisecond
	keepLook     = 10 * time.Second
)

// Renew restores the state that ended with ovs-vswitchd, after a restart.
func (s *Switch) Renew(ctx context.Context, plan *Plan) error {
	if err := s.Setup(ctx, plan); err != nil {
		return err
	}
	greet(ctx, plan)
	return nil
}

// Incarnation identifies a run of ovs-vswitchd by its socket, which each run creates; "" if there is none.
func (s *Switch) Incarnation() string {
	socket, err := os.Stat(s.managementSocket())
	if err != nil {
		return ""
	}
	return socket.ModTime().String()
}

// Keep restores the state that ends with ovs-vswitchd until ctx ends. It writes a line to log for each restoration and error.
func (s *Switch) Keep(ctx context.Context, plan *Plan, log io.Writer) error {
	known, looked, last := s.Incarnation(), time.Now(), ""
	for retry.Pause(ctx, keepInterval) == nil {
		now := s.Incarnation()
		restarted := now != known || !hasAddress(plan)
		if now == "" || (!restarted && last == "" && time.Since(looked) < keepLook) {
			continue
		}
		err := s.settle(ctx, plan, restarted)
		looked = time.Now()
		switch {
		case ctx.Err() != nil:
		case err != nil && err.Error() != last:
			fmt.Fprintf(log, "Open vSwitch is not as it was set up: %v\n", err)
			last = err.Error()
		case err == nil && restarted:
			fmt.Fprintln(log, "Open vSwitch was restarted and is set up again")
			known, last = now, ""
		case err == nil:
			last = ""
		}
	}
	return nil
}
