// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// object is data of a YANG module in JSON (RFC 7951).
type object = map[string]any

// BridgeData returns the configuration of each bridge that streams use: the gate-parameter-table of ieee802-dot1q-sched-bridge for each
// interface. The interfaces are named as the ports.
func (p *Plan) BridgeData(in *Input) map[string]any {
	interfaces := map[string][]object{}
	cycleMax := IntervalOf(in.Topology.SupportedCycleMaxNs)
	for i := range p.Ports {
		bridge, name, isBridge := strings.Cut(p.Ports[i].Port, "/")
		if !isBridge {
			continue
		}
		table := &p.Ports[i].Table
		var entries []object
		for _, entry := range table.AdminControlList.Entries {
			entries = append(entries, object{"index": entry.Index, "operation-name": "ieee802-dot1q-sched:" + entry.OperationName,
				"time-interval-value": entry.TimeIntervalValue, "gate-states-value": entry.GateStatesValue})
		}
		gates := object{
			"gate-enabled":        table.GateEnabled,
			"admin-gate-states":   table.AdminGateStates,
			"admin-control-list":  object{"gate-control-entry": entries},
			"admin-cycle-time":    table.AdminCycleTime,
			"admin-base-time":     object{"seconds": strconv.FormatUint(table.AdminBaseTime.Seconds, 10), "nanoseconds": table.AdminBaseTime.Nanoseconds},
			"config-change":       true,
			"supported-list-max":  in.Topology.SupportedListMax,
			"supported-cycle-max": cycleMax,
			// The module compares the entries with it.
			"supported-interval-max": uint32(math.MaxUint32),
		}
		interfaces[bridge] = append(interfaces[bridge], object{"name": name, "type": "iana-if-type:ethernetCsmacd",
			"ieee802-dot1q-bridge:bridge-port": object{"ieee802-dot1q-sched-bridge:gate-parameter-table": gates}})
	}
	documents := map[string]any{}
	for bridge, list := range interfaces {
		documents[bridge] = object{"ietf-interfaces:interfaces": object{"interface": list}}
	}
	return documents
}

var macAddress = regexp.MustCompile(`^[0-9A-Fa-f]{2}([-:][0-9A-Fa-f]{2}){5}$`)

// RequestData returns the streams as a request to a foreign CNC: ieee802-dot1q-cnc-config, whose talkers and listeners are the groupings of
// ieee802-dot1q-tsn-types. Its max-latency counts from the beginning of the interval (46.2.3.6.2), that of a Stream from the offset. All
// stations need hardware addresses.
func (in *Input) RequestData() (any, *Error) {
	if _, err := in.check(); err != nil {
		return nil, err
	}
	addresses := map[string]string{}
	for i, station := range in.Topology.Stations {
		if !macAddress.MatchString(station.MACAddress) {
			return nil, fault(fmt.Sprintf("topology.stations[%d].mac-address", i), "of %s is %q; give it as 02-00-00-00-00-01", station.Name, station.MACAddress)
		}
		addresses[station.Name] = strings.ToLower(strings.ReplaceAll(station.MACAddress, ":", "-"))
	}
	var streams []object
	counts := map[string]int{}
	for i := range in.Streams {
		s := &in.Streams[i]
		for _, name := range append([]string{s.Talker}, s.Listeners...) {
			if addresses[name] == "" {
				return nil, fault(fmt.Sprintf("streams[%d]", i), "stream %s: a request to a CNC needs the hardware address of %s; add the station with its "+
					"mac-address to topology.stations", s.Name, name)
			}
		}
		station := func(name string) []object { return []object{{"mac-address": addresses[name], "interface-name": ""}} }
		latestNs := s.Interval.Nanoseconds() - 1
		if s.LatestNs > 0 {
			latestNs = s.LatestNs
		}
		counts[s.Talker]++
		var listeners []object
		for k, name := range s.Listeners {
			listeners = append(listeners, object{"index": k, "end-station-interfaces": station(name)})
		}
		streams = append(streams, object{
			"stream-id": fmt.Sprintf("%s:%02x-%02x", addresses[s.Talker], counts[s.Talker]>>8&255, counts[s.Talker]&255),
			"talker": object{
				"stream-rank":              object{"rank": 1},
				"end-station-interfaces":   station(s.Talker),
				"data-frame-specification": []object{{"index": 0, "ieee802-vlan-tag": object{"priority-code-point": priorities[*s.TrafficClass], "vlan-id": 0}}},
				"traffic-specification": object{
					"interval":                s.Interval,
					"max-frames-per-interval": s.MaxFramesPerInterval,
					"max-frame-size":          s.MaxFrameSize,
					"transmission-selection":  0, // strict priority
					"time-aware":              object{"earliest-transmit-offset": s.EarliestNs, "latest-transmit-offset": latestNs, "jitter": 0},
				},
				"user-to-network-requirements": object{"num-seamless-trees": 1, "max-latency": min(s.EarliestNs+s.MaxLatencyNs, math.MaxUint32)},
			},
			"listener": listeners,
		})
	}
	cuc := object{"cuc-id": "ktsn", "stream": streams}
	return object{"ieee802-dot1q-cnc-config:cnc-config": object{"domain": []object{{"domain-id": "kubernetsn", "cuc": []object{cuc}}}}}, nil
}

// priorities are the priority code points of the classes by default (Table 8-5, 802.1Q).
var priorities = [control.TrafficClasses]uint8{1, 0, 2, 3, 4, 5, 6, 7}
