// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

// Error is a fault of an input. Field is its place, such as streams[2].interval.
type Error = errortext.FileError

func fault(field, format string, arguments ...any) *Error {
	return &Error{Field: field, Message: fmt.Sprintf(format, arguments...)}
}

// Forwarding is the way in which bridges choose the path of a stream.
type Forwarding string

const (
	// SpanningTree needs a topology without loops, which has one path between two stations.
	SpanningTree Forwarding = "spanning-tree"
	// ExplicitPaths lets the solver choose among the paths; bridges are configured with them.
	ExplicitPaths Forwarding = "explicit-paths"
)

// Topology is the physical network. Its fields have the names and units that docs/guide/streams.md lists.
type Topology struct {
	Forwarding          Forwarding `json:"forwarding,omitempty" yaml:"forwarding"`
	MTU                 int64      `json:"mtu,omitempty" yaml:"mtu"`                                 // bytes of MAC client data
	OverheadBytes       *int64     `json:"overhead,omitempty" yaml:"overhead"`                       // on the wire, besides the MAC client data
	GuardBandNs         *int64     `json:"guard-band,omitempty" yaml:"guard-band"`                   // at ports of bridges
	StationGuardBandNs  *int64     `json:"station-guard-band,omitempty" yaml:"station-guard-band"`   // at ports of stations
	GranularityNs       int64      `json:"tick-granularity,omitempty" yaml:"tick-granularity"`       // of all gate times
	SupportedListMax    int        `json:"supported-list-max,omitempty" yaml:"supported-list-max"`   // entries of a gate control list
	SupportedCycleMaxNs int64      `json:"supported-cycle-max,omitempty" yaml:"supported-cycle-max"` // of a gate control list
	QueueingClasses     []uint8    `json:"queueing-classes,omitempty" yaml:"queueing-classes"`       // classes whose frames may wait in bridges
	// Stations need no entry but for their addresses.
	Stations []Station `json:"stations,omitempty" yaml:"stations"`
	Bridges  []Bridge  `json:"bridges,omitempty" yaml:"bridges"`
	Links    []Link    `json:"links,omitempty" yaml:"links"`
}

// Station has the hardware address by which a foreign CNC knows a station.
type Station struct {
	Name       string `json:"name" yaml:"name"`
	MACAddress string `json:"mac-address" yaml:"mac-address"`
}

// Bridge forwards frames after they were received completely.
type Bridge struct {
	Name string `json:"name" yaml:"name"`
	// DelayNs is the longest time from the last bit of a frame to its presence in the egress queue.
	DelayNs int64 `json:"delay" yaml:"delay"`
	// MinDelayNs is the shortest such time (12.32.1, Bridge Delay).
	MinDelayNs int64 `json:"min-delay,omitempty" yaml:"min-delay"`
	// Ports are the names of all ports; links may use other names if it is empty.
	Ports []string `json:"ports,omitempty" yaml:"ports"`
}

// Link connects two ports in both directions.
type Link struct {
	// Ends are "BRIDGE/PORT" or the name of a station.
	Ends []string `json:"ends" yaml:"ends"`
	// LinkSpeed is a rate such as 1Gbit, the default.
	LinkSpeed string `json:"link-speed,omitempty" yaml:"link-speed"`
	// DelayNs is the propagation delay.
	DelayNs int64 `json:"delay,omitempty" yaml:"delay"`
}

// Defaults of a topology, and of the star that is assumed without one.
const (
	defaultMTU                = 1500
	defaultOverheadBytes      = 42     // preamble and SFD 8, addresses and type 14, VLAN tag 4, FCS 4, gap 12
	defaultGuardBandNs        = 2_000  // two clocks that each err by a microsecond
	defaultStationGuardBandNs = 20_000 // ktsnd --guard-band
	defaultSupportedListMax   = 256    // ktsnd's
	defaultSupportedCycleMax  = 1_000_000_000
	starBridge                = "bridge"
	starBridgeDelayNs         = 5_000
	starLinkDelayNs           = 100
)

func (t *Topology) setDefaults() {
	setDefault(&t.Forwarding, SpanningTree)
	setDefault(&t.MTU, defaultMTU)
	setDefault(&t.GranularityNs, 1)
	setDefault(&t.SupportedListMax, defaultSupportedListMax)
	setDefault(&t.SupportedCycleMaxNs, defaultSupportedCycleMax)
	for pointer, value := range map[**int64]int64{&t.OverheadBytes: defaultOverheadBytes, &t.GuardBandNs: defaultGuardBandNs,
		&t.StationGuardBandNs: defaultStationGuardBandNs} {
		if *pointer == nil {
			*pointer = &value
		}
	}
	for i := range t.Links {
		setDefault(&t.Links[i].LinkSpeed, "1Gbit")
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Star connects all stations of the streams to one bridge, by links of 1 Gbit/s.
func Star(streams []Stream) (bridges []Bridge, links []Link) {
	stations := map[string]bool{}
	for i := range streams {
		for _, name := range append([]string{streams[i].Talker}, streams[i].Listeners...) {
			stations[name] = true
		}
	}
	bridges = []Bridge{{Name: starBridge, DelayNs: starBridgeDelayNs}}
	for _, name := range sortedKeys(stations) {
		links = append(links, Link{Ends: []string{name, starBridge + "/" + name}, LinkSpeed: "1Gbit", DelayNs: starLinkDelayNs})
	}
	return bridges, links
}

// port is the sending side of a link's end.
type port struct {
	name    string // "BRIDGE/PORT" or a station
	node    string
	peer    int // index of the port at the other end
	station bool
	bps     int64
	delayNs int64 // of the link
	guardNs int64
}

// wireNs is the time of a frame on the link with preamble and gap, rounded up.
func (p *port) wireNs(bytes int64) int64 { return (bytes*8*1_000_000_000 + p.bps - 1) / p.bps }

// network is a checked topology.
type network struct {
	*Topology
	ports    []port
	leaving  map[string][]int // ports of a node
	delaysNs map[string]int64 // of bridges
	reached  map[string]*reach

	minDelaysNs map[string]int64
}

// compile checks a topology whose defaults are set.
func (t *Topology) compile() (*network, *Error) {
	n := &network{Topology: t, leaving: map[string][]int{}, delaysNs: map[string]int64{}, minDelaysNs: map[string]int64{}, reached: map[string]*reach{}}
	for _, limit := range []struct {
		name            string
		value, min, max int64
	}{{"mtu", t.MTU, 46, 65535}, {"overhead", *t.OverheadBytes, 0, 1000}, {"guard-band", *t.GuardBandNs, 0, 1e9},
		{"station-guard-band", *t.StationGuardBandNs, 0, 1e9}, {"tick-granularity", t.GranularityNs, 1, 1e6},
		{"supported-list-max", int64(t.SupportedListMax), 2, 1 << 20}, {"supported-cycle-max", t.SupportedCycleMaxNs, 1000, 3600e9}} {
		if limit.value < limit.min || limit.value > limit.max {
			return nil, fault("topology."+limit.name, "is %d; must be from %d to %d", limit.value, limit.min, limit.max)
		}
	}
	if IntervalOf(t.SupportedCycleMaxNs) == (Interval{}) {
		return nil, fault("topology.supported-cycle-max", "is %d; as a fraction of a second it has more than 32 bits: give a multiple of 1000 ns, such as %d",
			t.SupportedCycleMaxNs, t.SupportedCycleMaxNs/1000*1000)
	}
	if t.Forwarding != SpanningTree && t.Forwarding != ExplicitPaths {
		return nil, fault("topology.forwarding", "is %q; must be %s or %s", t.Forwarding, SpanningTree, ExplicitPaths)
	}
	bridgePorts := map[string][]string{}
	for i, bridge := range t.Bridges {
		field := fmt.Sprintf("topology.bridges[%d]", i)
		switch _, exists := bridgePorts[bridge.Name]; {
		case bridge.Name == "" || strings.Contains(bridge.Name, "/"):
			return nil, fault(field+".name", "is %q; give the bridge a name without /", bridge.Name)
		case exists:
			return nil, fault(field+".name", "is %q, as of a bridge before it; names are unique", bridge.Name)
		case bridge.DelayNs < 0 || bridge.DelayNs > 1e9:
			return nil, fault(field+".delay", "is %d; must be from 0 to 1000000000 ns", bridge.DelayNs)
		case bridge.MinDelayNs < 0 || bridge.MinDelayNs > bridge.DelayNs:
			return nil, fault(field+".min-delay", "is %d; must be from 0 to delay, %d ns", bridge.MinDelayNs, bridge.DelayNs)
		}
		bridgePorts[bridge.Name], n.delaysNs[bridge.Name], n.minDelaysNs[bridge.Name] = bridge.Ports, bridge.DelayNs, bridge.MinDelayNs
	}
	used := map[string]bool{}
	for i, link := range t.Links {
		field := fmt.Sprintf("topology.links[%d]", i)
		bps, err := schedule.ParseLinkSpeed(link.LinkSpeed)
		switch {
		case len(link.Ends) != 2:
			return nil, fault(field+".ends", "has %d entries; a link has two ends, such as [station, bridge/port]", len(link.Ends))
		case err != nil:
			return nil, fault(field+".link-speed", "%v", err)
		case link.DelayNs < 0 || link.DelayNs > 1e9:
			return nil, fault(field+".delay", "is %d; must be from 0 to 1000000000 ns", link.DelayNs)
		}
		for side, end := range link.Ends {
			node, name, hasPort := strings.Cut(end, "/")
			ports, isBridge := bridgePorts[node]
			switch {
			case node == "" || hasPort && name == "":
				return nil, fault(field+".ends", "has %q; give BRIDGE/PORT or the name of a station", end)
			case hasPort && !isBridge:
				return nil, fault(field+".ends", "has %s, and topology.bridges has no bridge %s; add it, or name a station without a port", end, node)
			case isBridge && !hasPort:
				return nil, fault(field+".ends", "has the bridge %s without a port; write %s/PORT", node, node)
			case isBridge && len(ports) > 0 && !slices.Contains(ports, name):
				return nil, fault(field+".ends", "has %s, and bridge %s has no such port; its ports are %s", end, node, strings.Join(ports, ", "))
			case used[end] && isBridge:
				return nil, fault(field+".ends", "has %s, which another link uses; a port has one link", end)
			case used[end]:
				return nil, fault(field+".ends", "has %s, which another link uses; a station has one uplink: give its second interface another name", end)
			}
			used[end] = true
			guardNs := *t.GuardBandNs
			if !isBridge {
				guardNs = *t.StationGuardBandNs
			}
			n.leaving[node] = append(n.leaving[node], len(n.ports))
			n.ports = append(n.ports, port{name: end, node: node, peer: len(n.ports) + 1 - 2*side, station: !isBridge, bps: bps,
				delayNs: link.DelayNs, guardNs: guardNs})
		}
	}
	if t.Forwarding == SpanningTree {
		if err := n.checkLoops(); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// checkLoops joins the nodes of each link (union-find); a link whose nodes are joined already closes a loop.
func (n *network) checkLoops() *Error {
	group := map[string]string{}
	root := func(node string) string {
		for group[node] != "" {
			node = group[node]
		}
		return node
	}
	for i := 0; i < len(n.ports); i += 2 {
		a, b := root(n.ports[i].node), root(n.ports[i+1].node)
		if a == b {
			return fault(fmt.Sprintf("topology.links[%d]", i/2), "closes a loop between %s and %s, so paths are ambiguous; leave out the link that "+
				"the spanning tree blocks, or set topology.forwarding to %s if the bridges are configured with paths",
				n.ports[i].name, n.ports[i+1].name, ExplicitPaths)
		}
		group[a] = b
	}
	return nil
}
