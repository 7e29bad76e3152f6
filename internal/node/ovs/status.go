// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Status is how Open vSwitch is.
type Status struct {
	Version     string `json:"version"`
	DPDK        string `json:"dpdk"`
	Initialized bool   `json:"dpdk-initialized"`
	// Settings are Open vSwitch's own that concern DPDK.
	Settings  map[string]string `json:"settings"`
	Hugepages []Hugepages       `json:"hugepages"`
	Ports     []PortStatus      `json:"ports"`
	// Flows is how many flows of ours there are: for each of ktsnd's ports one of each network, and one besides.
	Flows int `json:"flows"`
	// Networks are those that have a way into br-int.
	Networks []string `json:"networks"`
	// Connected tells that Open vSwitch is connected to ktsnd.
	Connected bool `json:"ktsnd-connected"`
}

// PortStatus is a port of Setup's.
type PortStatus struct {
	Bridge string `json:"bridge"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Link   string `json:"link"`
	Error  string `json:"error,omitempty"`
	// Received and Sent count packets, Dropped those that a port would not take.
	Received string `json:"received"`
	Sent     string `json:"sent"`
	Dropped  string `json:"dropped"`
}

// Status reads it. Where the database says that ktsnd is not connected, ovs-vswitchd is asked anew.
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

// refresh has ovs-vswitchd write the state of its interfaces, as it does after each change of the database.
//
// ovs-vswitchd may have lost a state: it does not write what its copy of the database holds already, and the copy lacks what
// is still on its way there. Started anew it writes "disconnected" over what its predecessor left. When ktsnd is connected
// before that is in the database, its copy holds the predecessor's "connected", and "disconnected" stays, for good.
//
// The second change is followed when what the first one brought about is in the database.
func (s *Switch) refresh(ctx context.Context) error {
	if err := s.checkAlive(ctx); err != nil {
		return err
	}
	return s.checkAlive(ctx)
}

// readStatus is Status as the database has it.
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
		one := have.interfaces[name]
		if !have.ports[name].ours() || name == have.bridgeOf[name] {
			continue
		}
		counters := one.pairs("statistics")
		status.Ports = append(status.Ports, PortStatus{Bridge: have.bridgeOf[name], Name: name, Type: one.text("type"), Link: one.text("link_state"),
			Error: one.text("error"), Received: counters["rx_packets"], Sent: counters["tx_packets"], Dropped: counters["tx_dropped"]})
		if one.text("type") == "" {
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

// Problems are what keeps messages from being sent, in sentences.
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
				all = append(all, fmt.Sprintf("there is no port %s on %s, as an older version leaves it; repeat `ktsn ovs setup`", name, BridgeInternal))
			}
		}
		if s.Flows != len(ktsndPorts)*(len(s.Networks)+1) {
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
