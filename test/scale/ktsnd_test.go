// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// peerKey is what tells peers apart.
type peerKey struct {
	vni     uint32
	address netip.Addr
}

// ktsnd plays a node's, as far as the agent talks to it. Any goroutine.
type ktsnd struct {
	path string

	mu sync.Mutex
	// listener and conns are those of the process that runs now.
	listener *net.UnixListener
	conns    map[net.Conn]bool
	status   control.Status
	table    control.GateParameterTable
	// begins is when the table is in force, in nanoseconds of TAI.
	begins int64
	peers  map[peerKey]*control.Peer
	// clocks is what networks ask of the clock, by VNI.
	clocks map[uint32]control.NetworkClock
	// order is that of lists; nil after a change.
	order []*control.Peer
}

// startKtsnd listens.
func startKtsnd(path, local string) (*ktsnd, error) {
	k := &ktsnd{path: path, peers: map[peerKey]*control.Peer{}, clocks: map[uint32]control.NetworkClock{}}
	k.status = control.Status{
		KtsndVersion: "played", Uplink: "direct", Interface: "eth0", LocalAddress: netip.MustParseAddr(local),
		Strategy: "tas", LinkSpeedBps: 1e9, Classes: []control.ClassStatus{},
	}
	return k, k.listen()
}

func (k *ktsnd) listen() error {
	_ = os.Remove(k.path) // of one that was killed
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: k.path, Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("play ktsnd: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listener, k.conns = listener, map[net.Conn]bool{}
	go k.accept(listener)
	return nil
}

func (k *ktsnd) accept(listener *net.UnixListener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		k.mu.Lock()
		if k.listener == listener {
			k.conns[conn] = true
			go k.serve(conn)
		} else {
			conn.Close()
		}
		k.mu.Unlock()
	}
}

// stop ends all connections, as the end of the process does.
func (k *ktsnd) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listener.Close()
	for conn := range k.conns {
		conn.Close()
	}
	k.listener = nil
}

// replace has another ktsnd take the place, whose uplink has another speed. It knows nothing of what the one before was told.
func (k *ktsnd) replace(linkSpeedBps int64) error {
	k.stop()
	k.mu.Lock()
	k.status.LinkSpeedBps = linkSpeedBps
	k.status.TrafficClassMap, k.status.PriorityCodePoints = control.TrafficClassMap{}, control.PriorityCodePoints{}
	k.table, k.begins = control.GateParameterTable{}, 0
	clear(k.peers)
	clear(k.clocks)
	k.order = nil
	k.mu.Unlock()
	return k.listen()
}

// requestBytes is above the longest request, a schedule of 256 entries.
const requestBytes = 32 << 10

var requestBuffers = sync.Pool{New: func() any {
	buffer := make([]byte, requestBytes)
	return &buffer
}}

func (k *ktsnd) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		k.mu.Lock()
		delete(k.conns, conn)
		k.mu.Unlock()
	}()
	for {
		// Most connections wait for hours, and need no buffer for it.
		if !await(conn.(*net.UnixConn)) {
			return
		}
		buffer := requestBuffers.Get().(*[]byte)
		count, err := conn.Read(*buffer)
		if err != nil || count == 0 {
			requestBuffers.Put(buffer)
			return
		}
		reply, err := k.answer((*buffer)[:count])
		requestBuffers.Put(buffer)
		if err != nil {
			reply, _ = json.Marshal(map[string]any{"version": 1, "error": control.Error{Field: "request", Message: err.Error()}})
		}
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

// await waits until there is something to read, without reading it.
func await(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	return raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return err != unix.EAGAIN
	}) == nil
}

// request has the fields of all requests that are answered with more than ok.
type request struct {
	Request  string                     `json:"request"`
	Offset   int                        `json:"offset"`
	Limit    int                        `json:"limit"`
	Schedule control.GateSchedule       `json:"schedule"`
	Classes  control.TrafficClassMap    `json:"traffic-class-map"`
	Points   control.PriorityCodePoints `json:"priority-code-points"`
	VNI      uint32                     `json:"vni"`
	Clock    json.RawMessage            `json:"clock"`
}

func (k *ktsnd) answer(text []byte) ([]byte, error) {
	var asked request
	if err := json.Unmarshal(text, &asked); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	reply := map[string]any{"version": 1, "reply": asked.Request}
	switch asked.Request {
	case "status":
		status := k.status
		status.Peers = len(k.peers)
		reply["status"] = status
	case "schedule-get":
		schedule := k.schedule()
		reply["reply"], reply["gate-parameter-table"] = "schedule", schedule.Table
		reply["link-speed-bps"], reply["guard-band-ns"] = schedule.LinkSpeedBps, schedule.GuardBandNs
	case "peers":
		reply["total"], reply["peers"] = len(k.peers), k.page(asked.Offset, asked.Limit)
	case "pods", "endpoints", "flows", "network-limits":
		reply["total"], reply[asked.Request] = 0, []any{}
	case "network-clocks":
		reply["total"], reply["network-clocks"] = len(k.clocks), slices.Collect(maps.Values(k.clocks))
	case "network-clock-set":
		reply["reply"] = "ok"
		if err := k.setClock(&asked); err != nil {
			return nil, err
		}
	case "departures":
		reply["overwritten"], reply["departures"] = 0, []any{}
	default:
		reply["reply"] = "ok"
		k.change(&asked)
	}
	return json.Marshal(reply)
}

// change executes a request. It does not keep settings that the agent never reads.
func (k *ktsnd) change(asked *request) {
	switch asked.Request {
	case "schedule-set":
		// A schedule that runs on other nodes begins here with the next cycle.
		k.table, k.begins = tableOf(&asked.Schedule), max(asked.Schedule.BaseTimeTAINs, nowTAI())
	case "traffic-classes-set":
		k.status.TrafficClassMap, k.status.PriorityCodePoints = asked.Classes, asked.Points
	}
}

// tableOf returns the table of the reply "schedule".
func tableOf(schedule *control.GateSchedule) control.GateParameterTable {
	table := control.GateParameterTable{
		GateEnabled:             schedule.GateEnabled,
		AdminGateStates:         schedule.GateStates,
		AdminCycleTime:          control.CycleTime{Numerator: uint32(schedule.CycleTimeNs / 1000), Denominator: 1e6},
		AdminCycleTimeExtension: schedule.CycleTimeExtensionNs,
		AdminBaseTime: control.PTPTime{Seconds: uint64(schedule.BaseTimeTAINs / 1e9),
			Nanoseconds: uint32(schedule.BaseTimeTAINs % 1e9)},
	}
	for i, entry := range schedule.Entries {
		table.AdminControlList.Entries = append(table.AdminControlList.Entries, control.GateControlEntry{Index: uint32(i),
			OperationName: control.SetGateStates, TimeIntervalValue: entry.IntervalNs, GateStatesValue: entry.GateStates})
	}
	for class, limit := range schedule.QueueMaxSDUBytes {
		table.QueueMaxSDUTable = append(table.QueueMaxSDUTable, control.QueueMaxSDU{TrafficClass: uint8(class), QueueMaxSDU: limit})
	}
	return table
}

// peersShared are peers that many nodes know, each once: what is measured is the agents' memory.
var peersShared sync.Map

func shared(peer *control.Peer) *control.Peer {
	id := struct {
		peerKey
		first, second netip.Prefix
	}{peerKey: peerKey{peer.VNI, peer.Address}}
	for i, prefix := range []*netip.Prefix{&id.first, &id.second} {
		if i < len(peer.Subnets) {
			*prefix = peer.Subnets[i]
		}
	}
	if existing, known := peersShared.Load(id); known {
		return existing.(*control.Peer)
	}
	stored, _ := peersShared.LoadOrStore(id, &control.Peer{VNI: peer.VNI, Address: peer.Address, Subnets: slices.Clone(peer.Subnets)})
	return stored.(*control.Peer)
}

// sorted are the peers in an order that stays.
func (k *ktsnd) sorted() []*control.Peer {
	if k.order == nil {
		k.order = slices.SortedFunc(maps.Values(k.peers), func(a, b *control.Peer) int {
			return cmp.Or(cmp.Compare(a.VNI, b.VNI), a.Address.Compare(b.Address))
		})
	}
	return k.order
}

// changePeers does what the kernel's side has the node do, for kernel and ktsnd at once. The real one tells ktsnd of each peer: a
// node does so within milliseconds, and a thousand nodes on one machine for minutes.
func (k *ktsnd) changePeers(changes []overlay.Change) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.order = nil
	for i := range changes {
		peer := &changes[i].Peer
		if changes[i].Gone {
			delete(k.peers, peerKey{peer.VNI, peer.Address})
		} else {
			k.peers[peerKey{peer.VNI, peer.Address}] = shared(peer)
		}
	}
}

func (k *ktsnd) page(offset, limit int) []*control.Peer {
	all := k.sorted()
	all = all[min(offset, len(all)):]
	return append([]*control.Peer{}, all[:min(limit, len(all))]...)
}

func (k *ktsnd) schedule() *control.Schedule {
	state := control.GateParameterState{
		GateEnabled: k.table.GateEnabled, AdminGateStates: k.table.AdminGateStates, AdminControlList: k.table.AdminControlList,
		AdminCycleTime: k.table.AdminCycleTime, AdminCycleTimeExtension: k.table.AdminCycleTimeExtension,
		AdminBaseTime: k.table.AdminBaseTime, ConfigPending: nowTAI() < k.begins, ConfigChangeTime: k.table.AdminBaseTime,
	}
	for _, limit := range k.table.QueueMaxSDUTable {
		state.QueueMaxSDUTable = append(state.QueueMaxSDUTable, control.QueueState{QueueMaxSDU: limit})
	}
	return &control.Schedule{Table: state, LinkSpeedBps: k.status.LinkSpeedBps}
}

// inForce tells whether the node executes a schedule of this cycle.
func (k *ktsnd) inForce(cycleNs int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.table.GateEnabled && k.table.AdminCycleTime.Nanoseconds() == cycleNs && nowTAI() >= k.begins
}

func (k *ktsnd) countPeers() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.peers)
}

func (k *ktsnd) listPeers() []control.Peer {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]control.Peer, 0, len(k.peers))
	for _, peer := range k.peers {
		all = append(all, *peer)
	}
	return all
}
