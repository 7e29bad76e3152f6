// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Status is the state of Open vSwitch.
type Status struct {
	Version     string `json:"version"`
	DPDK        string `json:"dpdk"`
	Initialized bool   `json:"dpdk-initialized"`
	// Settings are Open vSwitch's settings for DPDK.
	Settings  map[string]string `json:"settings"`
	Hugepages []Hugepages       `json:"hugepages"`
	Ports     []PortStatus      `json:"ports"`
	// Flows counts our flows; see wantedFlows.
	Flows int `json:"flows"`
	// Networks are the networks with a veth into br-int.
	Networks []string `json:"networks"`
	// Connected: Open vSwitch is connected to ktsnd.
	Connected bool `json:"ktsnd-connected"`
}

// PortStatus is the state of a port that Setup created.
type PortStatus struct {
	Bridge string `json:"bridge"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Link   string `json:"link"`
	Error  string `json:"error,omitempty"`
	// Received and Sent count packets, Dropped those that the port did not accept.
	Received string `json:"received"`
	Sent     string `json:"sent"`
	Dropped  string `json:"dropped"`
}

// Status reads the state. If the database has ktsnd as disconnected, ovs-vswitchd refreshes it first.
func (s *Switch) Status(ctx context.Context) (*Status, error) {
	status, err := s.readStatus(ctx)
	if err != nil || status.Connected || len(status.Ports) == 0 {
		return status, err
	}
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	return s.readStatus(ctx)
}

// refresh makes ovs-vswitchd write the state of its interfaces, which it does after each change of the database.
//
// The database can keep a wrong state: ovs-vswitchd skips values that its copy of the database has already, and the copy lags
// behind its own writes. After a restart it writes "disconnected" over its predecessor's "connected". If ktsnd connects before
// that write is in the copy, the copy still has "connected", so ovs-vswitchd skips it and "disconnected" stays for good.
//
// The second change is processed after the writes that the first one caused are in the database.
func (s *Switch) refresh(ctx context.Context) error {
	if err := s.checkAlive(ctx); err != nil {
		return err
	}
	return s.checkAlive(ctx)
}

// readStatus reads the state from the database without refreshing it.
func (s *Switch) readStatus(ctx context.Context) (*Status, error) {
	have, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	status := &Status{Version: have.root.text("ovs_version"), DPDK: have.root.text("dpdk_version"), Initialized: have.initialized(),
		Settings: have.root.pairs("other_config"), Ports: []PortStatus{}, Networks: []string{}}
	if status.Hugepages, err = readHugepages(hugepagesDir); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(have.ports)) {
		entry := have.interfaces[name]
		if !have.ports[name].ours() || name == have.bridgeOf[name] {
			continue
		}
		counters := entry.pairs("statistics")
		status.Ports = append(status.Ports, PortStatus{Bridge: have.bridgeOf[name], Name: name, Type: entry.text("type"), Link: entry.text("link_state"),
			Error: entry.text("error"), Received: counters["rx_packets"], Sent: counters["tx_packets"], Dropped: counters["tx_dropped"]})
		if entry.text("type") == "" {
			status.Networks = append(status.Networks, have.ports[name].text("tag"))
		}
	}
	for _, name := range ktsndPorts {
		if have.interfaces[name].pairs("status")["status"] == "connected" {
			status.Connected = true
		}
	}
	if len(status.Ports) == 0 {
		return status, nil
	}
	printed, err := s.ofctl(ctx, "dump-flows", "", fmt.Sprintf("cookie=%#x/-1", flowCookie))
	if err != nil {
		return nil, err
	}
	status.Flows = len(parseFlows(string(printed)))
	return status, nil
}

// wantedFlows returns the number of our flows: for each of ktsnd's ports one for each network and one more, one for each tunnel,
// and one that drops announcements from elsewhere.
func (s *Status) wantedFlows() int {
	flows := len(ktsndPorts)*(len(s.Networks)+1) + 1
	for _, port := range s.Ports {
		if port.Type == "vxlan" {
			flows++
		}
	}
	return flows
}

// Problems returns messages about everything that keeps frames from being sent.
func (s *Status) Problems() []string {
	var all []string
	switch {
	case !s.Initialized:
		all = append(all, "DPDK is not started; `ktsn ovs setup` does that")
	case len(s.Ports) == 0:
		all = append(all, "nothing is set up; `ktsn ovs setup` does that")
	default:
		if !s.Connected {
			all = append(all, "Open vSwitch is not connected to ktsnd; start it with --uplink ovs and the same --vhost-socket")
		}
		for _, name := range ktsndPorts {
			if !slices.ContainsFunc(s.Ports, func(port PortStatus) bool { return port.Name == name }) {
				all = append(all, fmt.Sprintf("there is no port %s on %s; repeat `ktsn ovs setup`", name, BridgeInternal))
			}
		}
		if s.Flows != s.wantedFlows() {
			all = append(all, "flows are missing, as after a restart of Open vSwitch; repeat `ktsn ovs setup`, or let it go on with --keep")
		}
	}
	for _, port := range s.Ports {
		if port.Error != "" {
			all = append(all, fmt.Sprintf("Open vSwitch cannot open %s: %s", port.Name, port.Error))
		}
	}
	return all
}
