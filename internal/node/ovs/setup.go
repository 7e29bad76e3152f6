// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// Setup applies the plan. If nothing of this package existed before and it fails, it removes what it created.
func (s *Switch) Setup(ctx context.Context, plan *Plan) error {
	if err := plan.Check(); err != nil {
		return err
	}
	before, err := s.readRunning(ctx)
	if err != nil {
		return err
	}
	if err := before.check(); err != nil {
		return err
	}
	if err := s.checkAlive(ctx); err != nil {
		return err
	}
	if err := thisMachine.checkDevice(plan.Device); err != nil {
		return err
	}
	if err := s.setup(ctx, plan, before); err != nil {
		if before.anyOurs() {
			return err
		}
		return errors.Join(err, s.Teardown(context.WithoutCancel(ctx)))
	}
	return nil
}

// readRunning waits until ovs-vswitchd has written its version into the database, and reads it.
func (s *Switch) readRunning(ctx context.Context) (*database, error) {
	for deadline := time.Now().Add(startTimeout); ; {
		have, err := s.read(ctx)
		if err != nil || have.root.text("dpdk_version") != "" {
			return have, err
		}
		if time.Now().After(deadline) {
			return nil, errNotRunning
		}
		if err := retry.Pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func (d *database) anyOurs() bool {
	for _, rows := range []map[string]row{d.bridges, d.ports} {
		for _, entry := range rows {
			if entry.ours() {
				return true
			}
		}
	}
	return d.root.pairs("external_ids")[madeSettings] != ""
}

func (s *Switch) setup(ctx context.Context, plan *Plan, have *database) error {
	mtu, err := linkMTU(plan.Interface)
	if err != nil {
		return err
	}
	if err := s.startDPDK(ctx, plan, have, mtu); err != nil {
		return err
	}
	inner := mtu - overlay.EncapsulationBytes
	for _, vni := range plan.Networks {
		if err := makeVeth(vni, inner); err != nil {
			return err
		}
	}
	changes := append(have.changes(plan), have.mtuChanges(inner)...)
	if err := s.write(ctx, changes); err != nil {
		return err
	}
	return s.settle(ctx, plan, len(changes) > 0)
}

// check fails if this Open vSwitch cannot be set up.
func (d *database) check() error {
	if version := d.root.text("dpdk_version"); version == "none" {
		return fmt.Errorf("this Open vSwitch (%s) runs without DPDK; install its build with DPDK and start that "+
			"(on Debian: openvswitch-switch-dpdk)", d.root.text("ovs_version"))
	}
	for _, name := range []string{BridgeInternal, BridgePhysical} {
		bridge, there := d.bridges[name]
		if there && bridge.text("datapath_type") != "netdev" {
			return fmt.Errorf("bridge %s is there already and of the kernel's datapath, which has no DPDK; remove it (ovs-vsctl del-br %s), "+
				"or make it one of userspace (ovs-vsctl set bridge %s datapath_type=netdev)", name, name, name)
		}
	}
	return nil
}

func (d *database) initialized() bool { return d.root.text("dpdk_initialized") == "true" }

// startDPDK writes the settings and waits until Open vSwitch has started DPDK.
func (s *Switch) startDPDK(ctx context.Context, plan *Plan, have *database, mtu int) error {
	memory := plan.MemoryMB
	if memory == 0 {
		memory = memoryMB(mtu)
	}
	if !have.initialized() {
		if err := checkHugepages(memory); err != nil {
			return err
		}
	}
	changes, err := have.settings(plan, memory)
	if err != nil {
		return err
	}
	if err := s.write(ctx, changes); err != nil {
		return err
	}
	return s.awaitDPDK(ctx)
}

func (s *Switch) awaitDPDK(ctx context.Context) error {
	for deadline := time.Now().Add(toolTimeout); ; {
		have, err := s.read(ctx)
		if err != nil || have.initialized() {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("ovs-vswitchd cannot start DPDK; its log (ovs-vswitchd.log) says why, and it must be restarted to try again")
		}
		if err := retry.Pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// settings returns the changes of Open vSwitch's global settings: missing ones, and ours that differ. It fails if the plan
// requests a value and another program has set a different one.
func (d *database) settings(plan *Plan, memory int) ([]string, error) {
	current := d.root.pairs("other_config")
	ours := strings.Fields(d.root.pairs("external_ids")[madeSettings])
	wanted := map[string]string{"dpdk-socket-mem": strconv.Itoa(memory), "per-port-memory": "true"}
	if current["dpdk-init"] != "true" {
		wanted["dpdk-init"] = "try" // with "true", ovs-vswitchd ends if DPDK cannot start
	}
	asked := map[string]bool{"dpdk-socket-mem": plan.MemoryMB != 0}
	if len(plan.PMDCPUs) > 0 {
		wanted["pmd-cpu-mask"], asked["pmd-cpu-mask"] = cpuMask(plan.PMDCPUs), true
	}
	if plan.PMDMaxSleep > 0 {
		wanted["pmd-maxsleep"], asked["pmd-maxsleep"] = strconv.FormatInt(plan.PMDMaxSleep.Microseconds(), 10), true
	}
	if plan.DPDKExtra != "" {
		wanted["dpdk-extra"], asked["dpdk-extra"] = plan.DPDKExtra, true
	}
	var changes []string
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		value, there := current[key]
		switch {
		case there && value == wanted[key]:
		case there && !slices.Contains(ours, key):
			if asked[key] {
				return nil, fmt.Errorf("another program has set %s of Open vSwitch to %s; omit the option for it, or remove it: "+
					"ovs-vsctl remove Open_vSwitch . other_config %s", key, value, key)
			}
		default:
			changes = append(changes, "other_config:"+key+"="+quoted(wanted[key]))
			if !slices.Contains(ours, key) {
				ours = append(ours, key)
			}
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	slices.Sort(ours)
	changes = append(changes, "external_ids:"+madeSettings+"="+quoted(strings.Join(ours, " ")))
	return append([]string{"--", "set", "Open_vSwitch", "."}, changes...), nil
}

// quoted quotes a string for ovs-vsctl.
func quoted(text string) string { return strconv.Quote(text) }

// port is a port of the plan.
type port struct {
	bridge, name string
	// settings are the port's columns; interfaceType and options belong to its interface.
	settings      []string
	interfaceType string
	options       map[string]string
}

func (p *Plan) ports() []port {
	var vlans []string
	for _, vni := range p.Networks {
		vlans = append(vlans, strconv.Itoa(int(vni)))
	}
	all := []port{
		{bridge: BridgePhysical, name: physicalPort, interfaceType: "dpdk", options: map[string]string{"dpdk-devargs": p.device()}},
	}
	for _, name := range ktsndPorts {
		// ktsnd does not read frames from the port, so do not retry.
		all = append(all, port{bridge: BridgeInternal, name: name, settings: []string{"trunks=" + strings.Join(vlans, ",")},
			interfaceType: "dpdkvhostuserclient", options: map[string]string{"vhost-server-path": p.vhostSocket(name), "tx-retries-max": "0"}})
	}
	for _, vni := range p.Networks {
		tag := []string{"tag=" + strconv.Itoa(int(vni))}
		all = append(all, port{bridge: BridgeInternal, name: switchName(vni), settings: tag})
		for _, peer := range p.Peers {
			all = append(all, port{bridge: BridgeInternal, name: tunnelName(vni, peer), settings: tag, interfaceType: "vxlan",
				options: map[string]string{"remote_ip": peer.String(), "local_ip": p.Address.Addr().String(),
					"key": strconv.Itoa(int(vni)), "dst_port": strconv.Itoa(int(cmp.Or(p.Ports[vni], p.Port)))}})
		}
	}
	return all
}

// changes returns the changes of the database: it adds missing bridges and ports, recreates ports of ours that differ, and
// removes ports of ours that the plan does not have.
func (d *database) changes(plan *Plan) []string {
	var changes []string
	for _, name := range []string{BridgeInternal, BridgePhysical} {
		if _, there := d.bridges[name]; !there {
			changes = append(changes, "--", "add-br", name, "--", "set", "Bridge", name, "datapath_type=netdev", "external_ids:"+madeBy+"=1")
		}
	}
	wanted := map[string]bool{}
	for _, port := range plan.ports() {
		wanted[port.name] = true
		changes = append(changes, d.portChanges(&port)...)
	}
	for _, name := range slices.Sorted(maps.Keys(d.ports)) {
		_, bridge := d.bridges[name] // a bridge's own port
		if d.ports[name].ours() && !wanted[name] && !bridge {
			changes = append(changes, "--", "del-port", d.bridgeOf[name], name)
		}
	}
	return changes
}

// mtuChanges sets a fixed MTU of the interface br-int if the bridge is ours. Otherwise Open vSwitch changes it when the ktsnd of
// the second port first connects. With each change of a link Open vSwitch flushes its routes for a moment, and flows that it
// revalidates in that moment lose their tunnel for 5 ms.
func (d *database) mtuChanges(mtu int) []string {
	bridge, there := d.bridges[BridgeInternal]
	wanted := strconv.Itoa(mtu)
	if there && (!bridge.ours() || d.interfaces[BridgeInternal].text("mtu_request") == wanted) {
		return nil
	}
	return []string{"--", "set", "Interface", BridgeInternal, "mtu_request=" + wanted}
}

func (d *database) portChanges(wanted *port) []string {
	existing, there := d.ports[wanted.name]
	if there && d.interfaces[wanted.name].text("type") == wanted.interfaceType && d.bridgeOf[wanted.name] == wanted.bridge &&
		maps.Equal(d.interfaces[wanted.name].pairs("options"), wanted.options) && existing.has(wanted.settings) {
		return nil
	}
	var changes []string
	if there && existing.ours() {
		changes = append(changes, "--", "del-port", d.bridgeOf[wanted.name], wanted.name)
	}
	changes = append(changes, "--", "add-port", wanted.bridge, wanted.name)
	changes = append(changes, wanted.settings...)
	changes = append(changes, "--", "set", "Port", wanted.name, "external_ids:"+madeBy+"=1")
	if wanted.interfaceType != "" {
		changes = append(changes, "--", "set", "Interface", wanted.name, "type="+wanted.interfaceType)
	}
	for _, key := range slices.Sorted(maps.Keys(wanted.options)) {
		changes = append(changes, "options:"+key+"="+quoted(wanted.options[key]))
	}
	return changes
}

// has reports whether a port has all settings, each such as tag=42.
func (r row) has(settings []string) bool {
	for _, setting := range settings {
		column, value, _ := strings.Cut(setting, "=")
		if strings.Join(r.numbers(column), ",") != value {
			return false
		}
	}
	return true
}

// numbers returns a column that is a number or a set of numbers.
func (r row) numbers(column string) []string {
	value, ok := r[column].([]any)
	if !ok {
		return []string{r.text(column)}
	}
	var all []string
	if len(value) == 2 {
		entries, _ := value[1].([]any)
		for _, entry := range entries {
			all = append(all, fmt.Sprint(entry))
		}
	}
	return all
}
