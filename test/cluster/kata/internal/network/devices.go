// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/protocol"
)

// devices is the part of a file that Kata reads: structs DanConfig to ARPNeighbor of runtime-rs,
// crates/resource/src/network/dan.rs. The types are not shared with the writers of such files, so that an error in one
// is not repeated in the other.
type devices struct {
	Netns   *string  `json:"netns"`
	Devices []device `json:"devices"`
}

type device struct {
	Name    string `json:"name"`
	Address string `json:"guest_mac"`
	Back    struct {
		Type    string `json:"type"`
		TapName string `json:"tap_name"`
		Queues  int    `json:"queue_num"`
	} `json:"device"`
	Info struct {
		Interface struct {
			Addresses []string `json:"ip_addresses"`
			MTU       int      `json:"mtu"`
		} `json:"interface"`
		Routes []struct {
			Destination string `json:"dest"`
			Source      string `json:"source"`
			Gateway     string `json:"gateway"`
			Scope       int    `json:"scope"`
		} `json:"routes"`
		Neighbors []struct {
			Address         string `json:"ip_address"`
			HardwareAddress string `json:"hardware_addr"`
			State           int    `json:"state"`
		} `json:"neighbors"`
	} `json:"network_info"`
}

// ReadDevices reads the devices of a file, and the network namespace of the taps ("" for this one). It returns
// fs.ErrNotExist if there is no file: the machine then has the interfaces of the pod's network namespace.
func ReadDevices(path string) (netns string, cards []Card, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	var read devices
	if err := json.Unmarshal(text, &read); err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	if read.Netns != nil {
		netns = *read.Netns
	}
	for _, device := range read.Devices {
		if device.Back.Type != "host-tap" {
			return "", nil, fmt.Errorf("%s: device %s is of type %q, and this runtime has host-tap only", path, device.Name, device.Back.Type)
		}
		cards = append(cards, device.card())
	}
	return netns, cards, nil
}

func (d *device) card() Card {
	card := protocol.Interface{Name: d.Name, Address: d.Address, MTU: d.Info.Interface.MTU, IPs: d.Info.Interface.Addresses}
	for _, route := range d.Info.Routes {
		card.Routes = append(card.Routes, protocol.Route{Destination: route.Destination, Gateway: route.Gateway, Source: route.Source, Scope: route.Scope})
	}
	for _, neighbor := range d.Info.Neighbors {
		card.Neighbors = append(card.Neighbors, protocol.Neighbor{IP: neighbor.Address, Address: neighbor.HardwareAddress, State: neighbor.State})
	}
	return Card{Tap: d.Back.TapName, Queues: max(d.Back.Queues, 1), Interface: card}
}
