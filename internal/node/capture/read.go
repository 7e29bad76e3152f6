// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// ErrGone means that the interface or network namespace does not exist.
var ErrGone = errors.New("it is gone")

// ErrUnattached means that the interface does not have the program.
var ErrUnattached = errors.New("the program is not attached")

// Places in the map `counts`: enum count of datapath/capture/capture.bpf.c.
const (
	countCaptured = iota
	countModeNone
	countClock
	countNoRoom
	countTags
	countTimed
	countUntimed
	countSegments
	countNoRelay
	countPassed
	countControl
	countUnsure
	countGated
	countEnd
)

// Reasons for which frames with a transmit time are dropped.
const (
	ReasonNotCaptured = "not-captured"
	ReasonClock       = "clock"
	ReasonNoRoom      = "no-room"
	ReasonQueueFull   = "queue-full"
	ReasonTags        = "tags"
	ReasonSegments    = "segments"
	ReasonNoRelay     = "no-relay"
	ReasonUnsure      = "unsure"
)

// refusals are the reasons at the pod's interface.
var refusals = map[int]string{
	countModeNone: ReasonNotCaptured, countClock: ReasonClock, countNoRoom: ReasonNoRoom, countTags: ReasonTags,
	countUnsure: ReasonUnsure,
}

// Explain describes a reason for which frames were dropped.
func Explain(reason string) string {
	switch reason {
	case ReasonNotCaptured:
		return "nothing is captured on this network"
	case ReasonClock:
		return "the clock of their times is none of CLOCK_TAI, CLOCK_MONOTONIC and CLOCK_REALTIME"
	case ReasonNoRoom:
		return "the kernel had no room for the record in front of them (it has for frames of up to 16,000 bytes)"
	case ReasonTags:
		return "they left by a VLAN device on a VLAN device, whose two tags cannot be put behind the record"
	case ReasonSegments:
		return "one transmit time stood for several segments, which the pod's interface left together"
	case ReasonNoRelay:
		return "no relay ran"
	case ReasonQueueFull:
		return "the program sent them faster than ktsnd takes them: frames wait in a queue of the relay's device, which was full"
	case ReasonUnsure:
		return "the host's time was not known well enough"
	}
	return reason
}

// Count has the counters of the program at a pod's interface.
type Count struct {
	// Attached: the program is attached. Otherwise all other fields are zero.
	Attached bool `json:"attached"`
	Mode     Mode `json:"mode"`
	// Captured counts frames that got a record.
	Captured uint64 `json:"captured"`
	// Refused counts frames that were dropped, by reason.
	Refused map[string]uint64 `json:"refused,omitempty"`
	// Programs are the senders. Their sums can be lower, because some senders are unknown.
	Programs []Program `json:"programs,omitempty"`
	// id is the program's.
	id ebpf.ProgramID
}

// RefusedSum returns the number of dropped frames.
func (c *Count) RefusedSum() (sum uint64) {
	for _, frames := range c.Refused {
		sum += frames
	}
	return sum
}

// Program is a program that sent frames with a transmit time without libktsn.so.
type Program struct {
	// Name is the kernel's name of the process, at most 15 bytes, which the process itself can set.
	Name     string `json:"name"`
	Captured uint64 `json:"captured"`
	Refused  uint64 `json:"refused"`
	// PID is the process that sent last, in the node's PID namespace.
	PID uint32 `json:"pid"`
}

// PortCount has the counters of the program at the node's end, in frames.
type PortCount struct {
	// Attached: the program is attached. Otherwise all other fields are zero.
	Attached bool `json:"attached"`
	// Former: the program is another release's. Its frames may pass gates that the schedule closes.
	Former bool `json:"former,omitempty"`
	Mode   Mode `json:"mode"`
	// ClassBy is the source of the class of a frame without a record.
	ClassBy ClassBy `json:"class-by"`
	// Timed and Untimed went to the relay.
	Timed   uint64 `json:"timed"`
	Untimed uint64 `json:"untimed"`
	// NoRelay counts timed frames dropped because there was no relay.
	NoRelay uint64 `json:"no-relay"`
	// Segments counts timed frames dropped because the kernel had not yet segmented them.
	Segments uint64 `json:"segments"`
	// NoRoom counts frames dropped because the kernel had no headroom for their class.
	NoRoom uint64 `json:"no-room"`
	// QueueFull counts frames dropped because the queue of the relay's device was full, since that device was made.
	QueueFull uint64 `json:"queue-full"`
	// Passed counts untimed frames that went to the bridge because no relay answered. The schedule never closes their gate.
	Passed uint64 `json:"passed"`
	// Gated counts untimed frames whose gate the schedule closes at times, dropped because there was no relay or because too many
	// were queued for it.
	Gated uint64 `json:"gated"`
	// Control counts frames that always go to the bridge: multicast group reports and frames addressed to bridges.
	Control uint64 `json:"control"`
	// GatedPriorities has a bit for each priority whose gate the schedule closes at times; all bits while the schedule is unknown.
	GatedPriorities uint64 `json:"gated-priorities"`
	// RelayIfindex is the interface index of the relay's device; 0: none.
	RelayIfindex int `json:"relay-ifindex"`
	// RelayGone: that device no longer exists. The process that runs relays ended without resetting RelayIfindex.
	RelayGone bool `json:"relay-gone,omitempty"`
	// HeartbeatAge is the age of the relay's last report that ktsnd takes untimed frames; negative if there was none.
	HeartbeatAge time.Duration `json:"heartbeat-age-ns"`
}

// Dropped returns the frames dropped at the node's end, by reason.
func (c *PortCount) Dropped() map[string]uint64 {
	all := map[string]uint64{}
	for reason, frames := range map[string]uint64{ReasonNoRelay: c.NoRelay, ReasonSegments: c.Segments, ReasonNoRoom: c.NoRoom, ReasonQueueFull: c.QueueFull} {
		if frames > 0 {
			all[reason] = frames
		}
	}
	return all
}

// At has the counters of both ends of a pod's interface, as shown by `ktsn node capture`.
type At struct {
	Identity  string `json:"identity"`
	Interface string `json:"interface"`
	// Device connects the interface to a virtual machine: tap, veth or vhost-user, which bypasses these counters; empty: no machine.
	Device string `json:"device,omitempty"`
	// Unguarded: filters of others run first, and what they let leave does not pass the program.
	Unguarded bool `json:"unguarded,omitempty"`
	Count
	// Node has the counters of the node's end.
	Node PortCount `json:"node"`
	// Failure is why reading failed.
	Failure string `json:"failure,omitempty"`
}

// Dropped returns the frames dropped at either end, by reason.
func (a *At) Dropped() map[string]uint64 {
	all := a.Node.Dropped()
	for reason, frames := range a.Refused {
		all[reason] += frames
	}
	return all
}

// ReadBoth reads the counters of a pod's interface in the network namespace netns, and of the node's end in the caller's.
func ReadBoth(netns, interfaceName string) (At, error) {
	at := At{Interface: interfaceName}
	var err error
	if at.Count, err = ReadIn(netns, interfaceName); err != nil || !at.Attached || at.Mode == None {
		return at, err
	}
	err = at.readNodes(netns)
	return at, err
}

// ReadOthers reads the counters of the pod's interfaces in the network namespace netns that have the program and are not known.
func ReadOthers(netns string, known []string) (others []At, err error) {
	err = ns.WithNetNSPath(netns, func(ns.NetNS) error {
		links, err := netdev.Dump(netlink.LinkList)
		if err != nil {
			return fmt.Errorf("list the pod's interfaces: %w", err)
		}
		for _, link := range links {
			at := At{Interface: link.Attrs().Name}
			if slices.Contains(known, at.Interface) {
				continue
			}
			if at.Count, err = Read(at.Interface); err != nil && !errors.Is(err, ErrGone) {
				return err
			}
			if !at.Attached {
				continue
			}
			if at.Unguarded, err = podHook.isBehindOthers(link); err != nil {
				return err
			}
			others = append(others, at)
		}
		return nil
	})
	return others, err
}

// ReadNodes reads the counters of the node's end only.
func ReadNodes(netns, interfaceName string) (At, error) {
	at := At{Interface: interfaceName}
	err := at.readNodes(netns)
	return at, err
}

func (a *At) readNodes(netns string) error {
	port, err := otherEnd(netns, a.Interface)
	if err != nil {
		return err
	}
	if a.Node, err = ReadPort(port); err == nil {
		err = a.Node.readRelay()
	}
	return err
}

// readRelay reads the relay's device. It disappears with the process that created it.
func (c *PortCount) readRelay() error {
	if c.RelayIfindex == 0 {
		return nil
	}
	link, err := netlink.LinkByIndex(c.RelayIfindex)
	switch {
	case errors.As(err, &netlink.LinkNotFoundError{}):
		c.RelayGone = true
	case err != nil:
		return fmt.Errorf("look at the relay's device: %w", err)
	case link.Attrs().Statistics != nil:
		c.QueueFull = link.Attrs().Statistics.TxDropped
	}
	return nil
}

// HasRelay reports whether there is a device that queues frames for the relay.
func (c *PortCount) HasRelay() bool { return c.RelayIfindex != 0 && !c.RelayGone }

// Answers reports whether the relay's last heartbeat is recent: ktsnd takes untimed frames.
func (c *PortCount) Answers() bool {
	return c.HasRelay() && c.HeartbeatAge >= 0 && c.HeartbeatAge <= HeartbeatLimit
}

// otherEnd returns the name of the node's end of a pod's interface.
func otherEnd(netns, interfaceName string) (string, error) {
	var peer int
	err := ns.WithNetNSPath(netns, func(ns.NetNS) error {
		link, err := netlink.LinkByName(interfaceName)
		if err == nil {
			peer = link.Attrs().ParentIndex
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("look for %s in the pod: %w", interfaceName, err)
	}
	port, err := netlink.LinkByIndex(peer)
	if err != nil {
		return "", fmt.Errorf("look for the node's end of %s: %w", interfaceName, err)
	}
	return port.Attrs().Name, nil
}

// ReadIn reads the counters of a pod's interface in the network namespace at the path netns.
func ReadIn(netns, interfaceName string) (count Count, err error) {
	errEnter := ns.WithNetNSPath(netns, func(ns.NetNS) error {
		count, err = Read(interfaceName)
		return nil
	})
	if errors.As(errEnter, &ns.NSPathNotExistErr{}) {
		return count, fmt.Errorf("%w: there is no network namespace %s", ErrGone, netns)
	}
	if errEnter != nil {
		return count, fmt.Errorf("enter the network namespace: %w", errEnter)
	}
	return count, err
}

// Read reads the counters of a pod's interface. All are zero if the program is not attached.
func Read(interfaceName string) (Count, error) {
	maps, id, err := podHook.openWithID(interfaceName)
	if errors.Is(err, ErrUnattached) {
		return Count{}, nil
	}
	if err != nil {
		return Count{}, orGone(interfaceName, err)
	}
	defer maps.close()
	count, err := maps.readPod()
	if err != nil {
		return Count{}, fmt.Errorf("read the counters of %s: %w", interfaceName, err)
	}
	count.id = id
	return count, nil
}

// Reread reads the counters again that Read has returned, without the interface's network namespace. ok is false if the program is gone or
// cannot be read. The kernel frees it a moment after the filter or the interface was removed, unless another program of the node holds it.
func (c *Count) Reread() (count Count, ok bool) {
	if c.id == 0 {
		return Count{}, false
	}
	maps, err := openMapsOf(c.id)
	if err != nil {
		return Count{}, false
	}
	defer maps.close()
	if !maps.areOf(podHook) {
		return Count{}, false
	}
	count, err = maps.readPod()
	count.id = c.id
	return count, err == nil
}

func (m openMaps) readPod() (Count, error) {
	count := Count{Attached: true, Refused: map[string]uint64{}}
	sums, now, err := m.readCommon()
	if err != nil {
		return count, err
	}
	count.Mode, count.Captured = Mode(now.Mode), sums[countCaptured]
	for place, reason := range refusals {
		if sums[place] > 0 {
			count.Refused[reason] = sums[place]
		}
	}
	count.Programs, err = readPrograms(m[programsMap])
	return count, err
}

// ReadPort reads the counters of the node's end of a pod's interface. All are zero if the program is not attached.
func ReadPort(portName string) (PortCount, error) {
	maps, err := portHook.open(portName)
	if errors.Is(err, ErrUnattached) {
		return PortCount{}, nil
	}
	if err != nil {
		return PortCount{}, err
	}
	defer maps.close()
	sums, now, err := maps.readCommon()
	if err != nil {
		return PortCount{}, fmt.Errorf("read the counters of %s: %w", portName, err)
	}
	last, errLast := readHeartbeat(maps[heartbeatMap])
	age, err := heartbeatAge(maps[heartbeatMap])
	return PortCount{
		Attached: true, Former: now.Version != version, Mode: Mode(now.Mode), ClassBy: ClassBy(now.ClassBy), RelayIfindex: int(now.RelayIfindex), HeartbeatAge: age,
		Timed: sums[countTimed], Untimed: sums[countUntimed], NoRelay: sums[countNoRelay], Segments: sums[countSegments],
		NoRoom: sums[countNoRoom], Passed: sums[countPassed], Control: sums[countControl],
		Gated: sums[countGated], GatedPriorities: last.Gated,
	}, errors.Join(err, errLast)
}

// readCommon reads the maps that all programs have.
func (m openMaps) readCommon() (sums [countEnd]uint64, now state, err error) {
	// Another release's program may have fewer counters.
	for place := range min(uint32(len(sums)), m[countsMap].MaxEntries()) {
		if err := m[countsMap].Lookup(place, &sums[place]); err != nil {
			return sums, now, err
		}
	}
	now, err = readState(m[stateMap])
	return sums, now, err
}

// readPrograms lists the sending programs, the largest count first.
func readPrograms(from *ebpf.Map) ([]Program, error) {
	var programs []Program
	var name [16]byte
	var sent struct {
		Captured, Refused uint64
		PID, Reserved     uint32
	}
	all := from.Iterate()
	for all.Next(&name, &sent) {
		text, _, _ := bytes.Cut(name[:], []byte{0})
		programs = append(programs, Program{Name: string(text), Captured: sent.Captured, Refused: sent.Refused, PID: sent.PID})
	}
	slices.SortFunc(programs, func(a, b Program) int {
		return cmp.Or(cmp.Compare(b.Captured+b.Refused, a.Captured+a.Refused), cmp.Compare(a.Name, b.Name))
	})
	return programs, all.Err()
}
