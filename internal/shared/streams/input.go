// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

// Input is the problem to solve.
type Input struct {
	// BaseTime is the TAI at which the schedules start.
	BaseTime control.PTPTime `json:"base-time" yaml:"base-time"`
	Topology *Topology       `json:"topology,omitempty" yaml:"topology"`
	Streams  []Stream        `json:"streams" yaml:"streams"`
}

// Stream is a talker's promise to send at most so much in each interval, and its requirements. Most fields are of the groupings
// group-traffic-specification and group-user-to-network-requirements of the YANG module ieee802-dot1q-tsn-types.
type Stream struct {
	Name string `json:"name" yaml:"name"`
	// Network is the TSNNetwork that the stream belongs to, if there are several.
	Network   string   `json:"network,omitempty" yaml:"network"`
	Talker    string   `json:"talker" yaml:"talker"`
	Listeners []string `json:"listeners" yaml:"listeners"`
	Interval  Interval `json:"interval" yaml:"interval"`
	// MaxFrameSize is in bytes of MAC client data.
	MaxFrameSize int64 `json:"max-frame-size" yaml:"max-frame-size"`
	// MinFrameSize is 1 by default; shorter frames arrive earlier.
	MinFrameSize         int64 `json:"min-frame-size,omitempty" yaml:"min-frame-size"`
	MaxFramesPerInterval int   `json:"max-frames-per-interval,omitempty" yaml:"max-frames-per-interval"`
	// MaxLatencyNs is from a frame's transmit time to its last bit at the last listener; 0 is the interval.
	MaxLatencyNs int64 `json:"max-latency,omitempty" yaml:"max-latency"`
	// EarliestNs and LatestNs bound the transmit offsets in the interval; a LatestNs of 0 is no bound.
	EarliestNs   int64  `json:"earliest-transmit-offset,omitempty" yaml:"earliest-transmit-offset"`
	LatestNs     int64  `json:"latest-transmit-offset,omitempty" yaml:"latest-transmit-offset"`
	TrafficClass *uint8 `json:"traffic-class,omitempty" yaml:"traffic-class"`
}

// Interval is a fraction of a second.
type Interval struct {
	Numerator   uint32 `json:"numerator" yaml:"numerator"`
	Denominator uint32 `json:"denominator" yaml:"denominator"`
}

// IntervalOf returns the interval of so many nanoseconds, and 0/0 if the fraction has more than 32 bits: each number of nanoseconds below
// 2^32 has an interval, and multiples of 1000 ns below an hour.
func IntervalOf(ns int64) Interval {
	divisor := gcd(ns, 1e9)
	if ns/divisor > math.MaxUint32 {
		return Interval{}
	}
	return Interval{uint32(ns / divisor), uint32(1e9 / divisor)}
}

// Nanoseconds returns 0 if the interval is not a whole number of nanoseconds.
func (i Interval) Nanoseconds() int64 {
	if i.Denominator == 0 || int64(i.Numerator)*1e9%int64(i.Denominator) != 0 {
		return 0
	}
	return int64(i.Numerator) * 1e9 / int64(i.Denominator)
}

const (
	// defaultTrafficClass is that of network control with eight classes (Table 8-5).
	defaultTrafficClass  = 7
	minDataBytes         = 46 // shorter ones are padded
	maxFileBytes         = 64 << 20
	maxBaseTimeSeconds   = 9_000_000_000 // its nanoseconds fit into 63 bits
	maxFramesPerInterval = 64
	maxRoutes            = 8
	// maxWindows bounds the windows of a port in a cycle, which a hyperperiod can make too many.
	maxWindows = 100_000
)

// Read reads an input and, unless topologyPath is empty, its topology from another file. Errors are *Error.
func Read(path, topologyPath string) (*Input, error) {
	input := &Input{}
	if err := decodeFile(path, input); err != nil {
		return nil, err
	}
	if topologyPath != "" {
		var file struct {
			Topology *Topology `yaml:"topology"`
		}
		if err := decodeFile(topologyPath, &file); err != nil {
			return nil, err
		}
		if input.Topology != nil && file.Topology != nil {
			return nil, &Error{File: path, Message: "has a topology, and " + topologyPath + " as well; leave out one of them"}
		}
		input.Topology = cmp.Or(file.Topology, input.Topology)
	}
	return input, nil
}

var unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)

func decodeFile(path string, value any) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read streams: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("read streams: %w", err)
	case len(data) > maxFileBytes:
		return &Error{File: path, Message: fmt.Sprintf("is longer than %d bytes", maxFileBytes)}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	err = decoder.Decode(value)
	var typeErrors *yaml.TypeError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return &Error{File: path, Message: "is empty; must have streams"}
	case errors.As(err, &typeErrors):
		err = errors.New("yaml: " + unknownField.ReplaceAllString(typeErrors.Errors[0], "there is no field $1"))
	}
	syntax := errortext.Syntax("cannot be read", err)
	syntax.File = path
	return syntax
}

// Locate adds file and line to a fault of a file's contents. A fault of the topology may be in a second file.
func Locate(err error, path, topologyPath string) error {
	var located *Error
	if !errors.As(err, &located) || located.File != "" {
		return err
	}
	located.File = path
	if topologyPath != "" && strings.HasPrefix(located.Field, "topology") {
		located.File = topologyPath
	}
	data, readErr := os.ReadFile(located.File)
	var tree yaml.Node
	if readErr != nil || yaml.Unmarshal(data, &tree) != nil || len(tree.Content) == 0 {
		return err // without a line
	}
	node := tree.Content[0]
	for _, part := range strings.FieldsFunc(located.Field, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next := child(node, part)
		if next == nil {
			break
		}
		node = next
	}
	located.Line = node.Line
	return err
}

func child(node *yaml.Node, name string) *yaml.Node {
	if index, err := strconv.Atoi(name); err == nil && node.Kind == yaml.SequenceNode && index < len(node.Content) {
		return node.Content[index]
	}
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

// check sets defaults, checks everything that can be judged before placing streams, and returns the network.
func (in *Input) check() (*network, *Error) {
	if len(in.Streams) == 0 {
		return nil, fault("streams", "has no entries; add a stream")
	}
	if in.Topology == nil {
		in.Topology = &Topology{}
	}
	if in.BaseTime.Nanoseconds >= 1e9 || in.BaseTime.Seconds > maxBaseTimeSeconds {
		return nil, fault("base-time", "is %d s and %d ns; must be at most %d s and less than 1000000000 ns", in.BaseTime.Seconds,
			in.BaseTime.Nanoseconds, maxBaseTimeSeconds)
	}
	if len(in.Topology.Links) == 0 && len(in.Topology.Bridges) == 0 {
		in.Topology.Bridges, in.Topology.Links = Star(in.Streams)
	}
	in.Topology.setDefaults()
	n, err := in.Topology.compile()
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	networks := map[string]*Stream{} // by talker
	for i := range in.Streams {
		s := &in.Streams[i]
		if err := n.checkStream(s, fmt.Sprintf("streams[%d]", i)); err != nil {
			return nil, err
		}
		if names[s.Name] {
			return nil, fault(fmt.Sprintf("streams[%d].name", i), "is %q, as of a stream before it; names are unique", s.Name)
		}
		names[s.Name] = true
		if other := networks[s.Talker]; other != nil && other.Network != s.Network {
			return nil, fault(fmt.Sprintf("streams[%d].network", i), "stream %s of network %q leaves %s by the uplink of stream %s of network %q; "+
				"an uplink executes the schedule of one network: give %s a second uplink or both streams one network",
				s.Name, s.Network, s.Talker, other.Name, other.Network, s.Talker)
		}
		networks[s.Talker] = s
	}
	return n, nil
}

func (n *network) checkStream(s *Stream, field string) *Error {
	setDefault(&s.MaxFramesPerInterval, 1)
	setDefault(&s.MinFrameSize, 1)
	if s.TrafficClass == nil {
		class := uint8(defaultTrafficClass)
		s.TrafficClass = &class
	}
	intervalNs := s.Interval.Nanoseconds()
	at := func(name, format string, arguments ...any) *Error { return fault(field+"."+name, format, arguments...) }
	switch {
	case s.Name == "":
		return at("name", "is missing; give the stream a name")
	case s.Talker == "":
		return at("talker", "is missing: stream %s has no talker; name the station that sends it", s.Name)
	case len(s.Listeners) == 0:
		return at("listeners", "is missing: stream %s has no listener; name at least one station", s.Name)
	case s.Interval.Denominator == 0 || s.Interval.Numerator == 0:
		return at("interval", "of stream %s is %d/%d s; give a numerator and a denominator from 1", s.Name, s.Interval.Numerator, s.Interval.Denominator)
	case intervalNs == 0:
		return at("interval", "of stream %s is %d/%d s; must be a whole number of nanoseconds", s.Name, s.Interval.Numerator, s.Interval.Denominator)
	case intervalNs%n.GranularityNs != 0:
		return at("interval", "of stream %s is %d ns; must be a multiple of topology.tick-granularity, %d ns", s.Name, intervalNs, n.GranularityNs)
	case intervalNs > n.SupportedCycleMaxNs:
		return at("interval", "of stream %s is %d ns; bridges execute cycles of at most %d ns (topology.supported-cycle-max)", s.Name, intervalNs,
			n.SupportedCycleMaxNs)
	case s.MaxFrameSize < 1 || s.MaxFrameSize > n.MTU:
		return at("max-frame-size", "of stream %s is %d bytes; must be from 1 to the MTU, %d: send smaller frames, more of them in an interval "+
			"(max-frames-per-interval), or raise topology.mtu", s.Name, s.MaxFrameSize, n.MTU)
	case s.MinFrameSize < 1 || s.MinFrameSize > s.MaxFrameSize:
		return at("min-frame-size", "of stream %s is %d bytes; must be from 1 to max-frame-size, %d", s.Name, s.MinFrameSize, s.MaxFrameSize)
	case s.MaxFramesPerInterval < 1 || s.MaxFramesPerInterval > maxFramesPerInterval:
		return at("max-frames-per-interval", "of stream %s is %d; must be from 1 to %d", s.Name, s.MaxFramesPerInterval, maxFramesPerInterval)
	case *s.TrafficClass >= control.TrafficClasses:
		return at("traffic-class", "of stream %s is %d; must be from 0 to 7", s.Name, *s.TrafficClass)
	case s.MaxLatencyNs < 0:
		return at("max-latency", "of stream %s is %d ns; must not be negative", s.Name, s.MaxLatencyNs)
	case s.EarliestNs < 0 || s.EarliestNs >= intervalNs || s.LatestNs < 0 || s.LatestNs != 0 && s.LatestNs < s.EarliestNs:
		return at("earliest-transmit-offset", "and latest-transmit-offset of stream %s are %d and %d ns; must be in this order within its interval of %d ns",
			s.Name, s.EarliestNs, s.LatestNs, intervalNs)
	}
	setDefault(&s.MaxLatencyNs, intervalNs)
	for _, name := range append([]string{s.Talker}, s.Listeners...) {
		switch ports := n.leaving[name]; {
		case len(ports) == 0:
			return at("talker", "stream %s needs station %s, which has no link in the topology; add the link to topology.links", s.Name, name)
		case !n.ports[ports[0]].station:
			return at("talker", "stream %s needs station %s, which is a bridge; talkers and listeners are stations", s.Name, name)
		}
	}
	if slices.Contains(s.Listeners, s.Talker) {
		return at("listeners", "of stream %s has its talker, %s", s.Name, s.Talker)
	}
	return nil
}

// hop is a port on the way of a frame, in an order in which each hop follows the previous one.
type hop struct {
	port     int
	previous int   // index; -1 at the talker
	deltaNs  int64 // planned start after that of the talker if the frame never waits
	wireNs   int64
	occupyNs int64 // wireNs and the guard band
	// earlyNs is by how much a frame may be in the queue before its planned arrival: the shortest frame over the fastest way, from a node whose
	// clock is ahead by the guard band. It is 0 at the talker.
	earlyNs int64
	queueNs int64 // from the earliest arrival to the start, if the frame never waits
}

// route is a path, or a tree if the stream has several listeners.
type route struct {
	hops      []hop
	leaves    []int // hops that end at listeners
	latencyNs int64 // worst case if the frame never waits
}

// toleranceNs is how late a frame may be without leaving a window.
func (n *network) toleranceNs(r *route) int64 {
	tolerance := n.ports[r.hops[0].port].guardNs
	for _, h := range r.hops {
		tolerance = min(tolerance, n.ports[h.port].guardNs)
	}
	return tolerance
}

// routes returns the possible routes of a stream, the shortest first.
func (n *network) routes(s *Stream) ([]route, *Error) {
	var paths [][]int
	first := n.leaving[s.Talker][0]
	if n.Forwarding == ExplicitPaths && len(s.Listeners) == 1 {
		paths = n.simplePaths(first, s.Listeners[0])
	} else if tree := n.shortestTree(first, s.Listeners); tree != nil {
		return []route{n.route(s, tree)}, nil
	}
	if len(paths) == 0 {
		return nil, fault("topology.links", "stream %s: there is no path from %s to all of %s; add the missing link", s.Name, s.Talker,
			strings.Join(s.Listeners, ", "))
	}
	var routes []route
	for _, path := range paths {
		previous := map[int]int{path[0]: -1}
		for i := 1; i < len(path); i++ {
			previous[path[i]] = path[i-1]
		}
		routes = append(routes, n.route(s, previous))
	}
	return routes, nil
}

// reach has the shortest paths from a node: for each port the one before it, -1 at the node, and for each node the port by which it is reached
// and the number of links.
type reach struct {
	previous map[int]int
	arrival  map[string]int
	links    map[string]int
}

// shortestPaths searches breadth first, once for each node.
func (n *network) shortestPaths(from string) *reach {
	if n.reached[from] != nil {
		return n.reached[from]
	}
	r := &reach{previous: map[int]int{}, arrival: map[string]int{from: -1}, links: map[string]int{from: 0}}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		node := queue[0]
		if _, isBridge := n.delaysNs[node]; !isBridge {
			continue
		}
		for _, at := range n.leaving[node] {
			next := n.ports[n.ports[at].peer].node
			if _, known := r.arrival[next]; known {
				continue
			}
			r.previous[at], r.arrival[next], r.links[next] = r.arrival[node], at, r.links[node]+1
			queue = append(queue, next)
		}
	}
	n.reached[from] = r
	return r
}

// shortestTree returns the ports of the shortest paths, each with the port before it; nil if a listener cannot be reached. Talkers at the same
// bridge share the search.
func (n *network) shortestTree(first int, listeners []string) map[int]int {
	r := n.shortestPaths(n.ports[n.ports[first].peer].node)
	tree := map[int]int{first: -1}
	for _, listener := range listeners {
		at, reached := r.arrival[listener]
		if !reached {
			return nil
		}
		for ; at >= 0; at = r.previous[at] {
			if tree[at] = r.previous[at]; tree[at] < 0 {
				tree[at] = first
			}
		}
	}
	return tree
}

// maxPathSteps bounds the search for paths, of which a mesh has exponentially many.
const maxPathSteps = 20_000

// simplePaths returns up to maxRoutes paths without a repeated node, by iterative deepening (IDA*): the shortest first.
func (n *network) simplePaths(first int, listener string) (paths [][]int) {
	steps := 0
	remaining := n.shortestPaths(n.ports[n.ports[n.leaving[listener][0]].peer].node).links // from each node to the node before the listener
	visited := map[string]bool{n.ports[first].node: true}
	var extend func(path []int, depth int)
	extend = func(path []int, depth int) {
		node := n.ports[n.ports[path[len(path)-1]].peer].node
		steps++
		_, isBridge := n.delaysNs[node]
		links, reached := remaining[node]
		switch {
		case len(paths) == maxRoutes || steps > maxPathSteps || visited[node]:
		case node == listener:
			if len(path) == depth {
				paths = append(paths, slices.Clone(path))
			}
		case isBridge && reached && len(path)+links+1 <= depth:
			visited[node] = true
			for _, next := range n.leaving[node] {
				extend(append(path, next), depth)
			}
			delete(visited, node)
		}
	}
	for depth := 1; depth <= len(n.delaysNs)+1 && len(paths) < maxRoutes && steps <= maxPathSteps; depth++ {
		extend([]int{first}, depth)
	}
	return paths
}

// route computes the times of a tree of ports.
func (n *network) route(s *Stream, previous map[int]int) route {
	var r route
	index := map[int]int{-1: -1}
	isPrevious := map[int]bool{}
	for _, before := range previous {
		isPrevious[before] = true
	}
	remaining := sortedKeys(previous)
	for len(remaining) > 0 {
		remaining = slices.DeleteFunc(remaining, func(at int) bool {
			before, known := index[previous[at]]
			if !known {
				return false
			}
			p := &n.ports[at]
			h := hop{port: at, previous: before, wireNs: p.wireNs(max(s.MaxFrameSize, minDataBytes) + *n.OverheadBytes)}
			h.occupyNs = roundUp(h.wireNs+p.guardNs, n.GranularityNs)
			if before >= 0 {
				from, bridge := &r.hops[before], p.node
				arrivalNs := n.arrivalNs(from, from.deltaNs)
				h.deltaNs = roundUp(arrivalNs, n.GranularityNs)
				shortestNs := n.ports[from.port].wireNs(max(s.MinFrameSize, minDataBytes) + *n.OverheadBytes)
				h.earlyNs = from.wireNs - shortestNs + n.delaysNs[bridge] - n.minDelaysNs[bridge] + p.guardNs
				h.queueNs = h.deltaNs - arrivalNs + h.earlyNs
			}
			index[at] = len(r.hops)
			if !isPrevious[at] {
				r.leaves = append(r.leaves, len(r.hops))
			}
			r.hops = append(r.hops, h)
			return true
		})
	}
	for _, leaf := range r.leaves {
		r.latencyNs = max(r.latencyNs, r.hops[leaf].deltaNs+r.hops[leaf].wireNs+n.ports[r.hops[leaf].port].delayNs)
	}
	r.latencyNs += n.toleranceNs(&r)
	return r
}

// arrivalNs returns when a frame whose hop starts at a time is in the queues of the next bridge.
func (n *network) arrivalNs(h *hop, startNs int64) int64 {
	p := &n.ports[h.port]
	return startNs + h.wireNs + p.delayNs + n.delaysNs[n.ports[p.peer].node]
}

func roundUp(value, step int64) int64 { return (value + step - 1) / step * step }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func sortedKeys[K cmp.Ordered, V any](values map[K]V) []K {
	keys := make([]K, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
