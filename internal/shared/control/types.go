// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Endpoint is one tsn interface of one pod, attached to ktsnd.
type Endpoint struct {
	// Identity is the pod's UID, else the container's id.
	Identity string `json:"identity"`
	// Interface is the name of the tsn interface inside the pod.
	Interface string `json:"interface"`
	// Netns is the absolute path of the pod's network namespace.
	Netns string `json:"netns"`
	// VNI is the VXLAN network identifier, 1 to 16777215.
	VNI uint32 `json:"vni"`
	// Bridge is the network's bridge on this node, in ktsnd's namespace; empty if there is none, and then
	// timed messages to pods of this node are refused.
	Bridge string `json:"bridge"`
	// Sources are the addresses that the pod may send from; nil: from the interface's own hardware address and any IP address.
	Sources *Sources `json:"sources,omitempty"`
	// Grants are further permissions of the pod; nil: none.
	Grants *Grants `json:"grants,omitempty"`
	// Receive gives the pod's sockets receive rings for datagrams from this endpoint.
	Receive bool `json:"receive,omitempty"`
}

// Sources are the source addresses that an endpoint may use.
type Sources struct {
	// HardwareAddresses are at most 8, such as 02:00:0a:2a:00:02; the interface's own is always one of them.
	HardwareAddresses []string `json:"hardware-addresses"`
	// Addresses are at most 16. Link-local addresses of the hardware addresses, and the unspecified address, are always allowed, because a
	// pod needs them to get an address.
	Addresses []netip.Prefix `json:"addresses"`
}

// Grants are permissions of an endpoint that others lack.
type Grants struct {
	// PriorityMax is the highest priority of its frames: 6 to 15.
	PriorityMax int `json:"priority-max"`
	// PriorityCodePoint says that the PCP of a frame with an 802.1Q tag is its priority.
	PriorityCodePoint bool `json:"priority-code-point"`
}

// AttachedEndpoint is an Endpoint as ktsnd lists it, with what it read from the interface.
type AttachedEndpoint struct {
	Endpoint
	MAC string `json:"mac"`
	// MTU is the interface's, in bytes.
	MTU int `json:"mtu"`
}

// Peer is another node and the subnets of its pods.
type Peer struct {
	VNI uint32 `json:"vni"`
	// Address is the node's tunnel end.
	Address netip.Addr `json:"address"`
	// Subnets are the pod subnets of network VNI that the node serves.
	Subnets []netip.Prefix `json:"subnets"`
	// Port is the UDP port of the network's tunnels while they are not encrypted, the same for all of its peers; 0: that of ktsnd.
	Port uint16 `json:"port,omitempty"`
	// MTU is the largest IP packet of a pod that the node's route to the peer lets pass, in bytes; 0: not known. Only ktsnd sets it.
	MTU int `json:"mtu-bytes,omitempty"`
	// Health is nil where ktsnd does not measure it. Only ktsnd sets it.
	Health *PeerHealth `json:"health,omitempty"`
}

// PeerHealth says when the last announcement of a peer arrived, which sends one every 10 to 20 s, and how many were lost.
type PeerHealth struct {
	// Encrypted reports that the announcements are encrypted. They are seen in the tunnel only, and a peer of release 0.1.0 sends none.
	Encrypted bool `json:"encrypted,omitempty"`
	// ListeningMs is for how long an announcement would have been received.
	ListeningMs int64 `json:"listening-ms"`
	// UplinkAgoMs and TunnelAgoMs are the times since the last one arrived at the uplink, and in the tunnel, after the node's packet filter;
	// -1 if none has.
	UplinkAgoMs int64 `json:"uplink-ago-ms"`
	TunnelAgoMs int64 `json:"tunnel-ago-ms"`
	// Lost is how many of the last Announced announcements, at most 64, did not arrive at the uplink, or in the tunnel if they are encrypted.
	// Announced is 0 for a peer of release 0.1.0, whose announcements have no numbers.
	Announced int `json:"announced,omitempty"`
	Lost      int `json:"lost,omitempty"`
}

// Lossy reports whether so many announcements were lost that messages probably are, too: at least three, because a single one may be lost
// when a cable is moved. A network that loses one frame in a hundred is noticed sooner or later, one that loses one in twenty within minutes.
func (h *PeerHealth) Lossy() bool {
	const lossyFrom = 3
	return h != nil && h.Lost >= lossyFrom
}

// NodeGroups are the multicast groups of the pods of one node.
type NodeGroups struct {
	VNI uint32 `json:"vni"`
	// Address is the node's tunnel end: this node's own, or a peer's.
	Address netip.Addr `json:"address"`
	// Known reports whether the node has announced its groups. A node that has not gets messages to all groups.
	Known bool `json:"known"`
	// Everything reports that the node wants messages to all groups.
	Everything bool `json:"everything"`
	// Count is the number of groups, of which Groups are the first 64 at most.
	Count  int          `json:"count"`
	Groups []netip.Addr `json:"groups"`
}

// Departure is a message that left through ktsnd's port.
type Departure struct {
	// Sequence counts all departures of this daemon from 1.
	Sequence uint64
	// Flow is ktsnd's number for the socket that sent the message.
	Flow uint64
	// RequestedTAI is the transmit time asked for and DepartedTAI the clock read that released the frame,
	// just before it was handed to the port: CLOCK_TAI nanoseconds.
	RequestedTAI int64
	DepartedTAI  int64
	// Overrun reports a transmission overrun: the frame was on the link when its gate closed.
	Overrun bool
}

// TracedMessage is a message with its outcome. Times are CLOCK_TAI nanoseconds.
type TracedMessage struct {
	// Sequence counts the messages of the trace from 1.
	Sequence uint64 `json:"sequence"`
	Flow     uint64 `json:"flow"`
	// CalledTAI is when the send call began, as the application's library reported it; 0 if it did not.
	CalledTAI int64 `json:"called-tai-ns"`
	// TakenTAI is when ktsnd took the message, DueTAI its transmit time.
	TakenTAI int64 `json:"taken-tai-ns"`
	DueTAI   int64 `json:"due-tai-ns"`
	// EndedTAI is when the message was released to the port, or dropped.
	EndedTAI int64 `json:"ended-tai-ns"`
	// Outcome is the name of the counter that counts it: "on-time", "untimed", "late-…" or "drop-…".
	Outcome      string `json:"outcome"`
	TrafficClass uint8  `json:"traffic-class"`
	PayloadBytes uint32 `json:"payload-bytes"`
}

// Sent reports whether the message left, possibly late.
func (m TracedMessage) Sent() bool {
	return !strings.HasPrefix(m.Outcome, "drop-")
}

// departureFields is the length of the array of a Departure on the wire.
const departureFields = 5

// MarshalJSON writes the departure as the array of the protocol.
func (d Departure) MarshalJSON() ([]byte, error) {
	overrun := 0
	if d.Overrun {
		overrun = 1
	}
	return fmt.Appendf(nil, "[%d,%d,%d,%d,%d]", d.Sequence, d.Flow, d.RequestedTAI, d.DepartedTAI, overrun), nil
}

// UnmarshalJSON reads the array of the protocol and accepts no other length.
func (d *Departure) UnmarshalJSON(data []byte) error {
	var fields []json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("departure: %w", err)
	}
	if len(fields) != departureFields {
		return fmt.Errorf("departure has %d numbers instead of %d", len(fields), departureFields)
	}
	var overrun uint8
	err := errors.Join(
		json.Unmarshal(fields[0], &d.Sequence),
		json.Unmarshal(fields[1], &d.Flow),
		json.Unmarshal(fields[2], &d.RequestedTAI),
		json.Unmarshal(fields[3], &d.DepartedTAI),
		json.Unmarshal(fields[4], &overrun))
	d.Overrun = overrun == 1
	return err
}

// Instance is one of the ktsnd that a node may have at a time; the youngest serves.
type Instance struct {
	// Name is the name of its pod, or empty.
	Name string `json:"name"`
	// BootID is the boot in which the instance started, and BornNs its start on CLOCK_BOOTTIME; 0: unknown.
	BootID string `json:"boot-id"`
	BornNs int64  `json:"born-ns"`
	// StandingBy are the names of the instances that start again when this one ends, in no order.
	StandingBy []string `json:"standing-by"`
}

// Status is the state of ktsnd.
type Status struct {
	KtsndVersion string `json:"ktsnd-version"`
	PID          int    `json:"pid"`
	// Uplink is "direct" or "ovs".
	Uplink       string     `json:"uplink"`
	Interface    string     `json:"interface"`
	LocalAddress netip.Addr `json:"local-address"`
	// Strategy decides when a message leaves: "tas", "etf", "etf-deadline" or "strict-priority".
	Strategy     string `json:"strategy"`
	LinkSpeedBps int64  `json:"link-speed-bps"`
	// GuardBandNs is how long before its gate closes a frame must have left.
	GuardBandNs int64 `json:"guard-band-ns"`
	// VLANID is the VLAN of the frames' tag; 0: no tag.
	VLANID             uint16             `json:"vlan-id"`
	TrafficClassMap    TrafficClassMap    `json:"traffic-class-map"`
	PriorityCodePoints PriorityCodePoints `json:"priority-code-points"`
	// Scheduler is the scheduling policy of the sending loop, which may differ from the requested one.
	Scheduler         string `json:"scheduler"`
	SchedulerPriority int    `json:"scheduler-priority"`
	// CPU is the CPU of the sending loop; negative when it is not pinned.
	CPU int `json:"cpu"`
	// SpinNs is the maximum time before a departure at which ktsnd stops sleeping and polls the clock.
	SpinNs    int64 `json:"spin-ns"`
	KeepAwake bool  `json:"keep-awake"`
	// KeepAwakeBy is "latency-limit", "thread" or "none".
	KeepAwakeBy string `json:"keep-awake-by"`
	// ProcessorTimeNs is the processor time of all threads since the start.
	ProcessorTimeNs int64 `json:"processor-time-ns"`
	// RealtimeBudget is the real-time budget of the sending loop.
	RealtimeBudget RealtimeBudget `json:"realtime-budget"`
	Sockets        int            `json:"sockets"`
	Endpoints      int            `json:"endpoints"`
	Peers          int            `json:"peers"`
	Processes      int            `json:"processes"`
	Flows          int            `json:"flows"`
	Pending        int            `json:"pending"`
	// RingMemoryBytes is the memory of the rings of all pods that are not removed, including rings that a process still maps after it
	// disconnected.
	RingMemoryBytes uint64 `json:"ring-memory-bytes"`
	// RingMemoryRemovedBytes is the memory of rings of removed pods that the kernel has not freed yet. It is not part of
	// RingMemoryBytes. Memory above a fourth of RingMemoryMaxBytes counts towards that limit together with RingMemoryBytes.
	RingMemoryRemovedBytes uint64        `json:"ring-memory-removed-bytes"`
	RingMemoryMaxBytes     uint64        `json:"ring-memory-max-bytes"`
	Classes                []ClassStatus `json:"classes"`
	Counters               Counters      `json:"counters"`
	Clock                  Clock         `json:"clock"`
}

// FIFOPriority returns the SCHED_FIFO priority of the sending loop, 0 for ordinary scheduling.
func (s *Status) FIFOPriority() int {
	if s.Scheduler != "SCHED_FIFO" {
		return 0
	}
	return s.SchedulerPriority
}

// RealtimeBudget is the processor time that the kernel allows real-time threads before it throttles them, and its use.
type RealtimeBudget struct {
	// RuntimeNs may be used in each PeriodNs; both are 0 if the kernel does not throttle. Source is the origin of the limit.
	RuntimeNs int64  `json:"runtime-ns"`
	PeriodNs  int64  `json:"period-ns"`
	Source    string `json:"source"`
	// UsedNs is the use of the loop in the last whole period, MostUsedNs the largest in any period since the budget was changed.
	UsedNs     int64 `json:"used-ns"`
	MostUsedNs int64 `json:"most-used-ns"`
	// Rests counts rests between departures, RestsForced those taken although no gap was long enough.
	Rests       uint64 `json:"rests"`
	RestsForced uint64 `json:"rests-forced"`
	// Stops counts the times that the kernel kept the loop from its processor for 10 ms or longer, StoppedNs is their sum. HostPauses counts
	// pauses of the machine of that length.
	Stops      uint64 `json:"stops"`
	StoppedNs  int64  `json:"stopped-ns"`
	HostPauses uint64 `json:"host-pauses"`
}

// Share returns the part of the budget that was used in the last whole period.
func (b *RealtimeBudget) Share() float64 { return b.share(b.UsedNs) }

// MostShare returns the largest part that was used in any period.
func (b *RealtimeBudget) MostShare() float64 { return b.share(b.MostUsedNs) }

func (b *RealtimeBudget) share(ns int64) float64 {
	if b.RuntimeNs == 0 {
		return 0
	}
	return float64(ns) / float64(b.RuntimeNs)
}

// Clock is the kernel's state of the node's clock, the agent's last report about it, and the steps that ktsnd has seen.
type Clock struct {
	// TAIOffsetS is TAI - UTC; 0 when it is not set.
	TAIOffsetS int `json:"tai-offset-s"`
	// Synchronized reports that a program disciplines the clock.
	Synchronized     bool  `json:"synchronized"`
	MaximumErrorNs   int64 `json:"maximum-error-ns"`
	EstimatedErrorNs int64 `json:"estimated-error-ns"`
	// FrequencyPPB corrects the clock's own frequency.
	FrequencyPPB int64 `json:"frequency-ppb"`
	TickNs       int64 `json:"tick-ns"`
	// State is the agent's last report. ErrorBoundNs has grown by DriftPPB since then; below zero: unknown.
	State        ClockState `json:"state"`
	ErrorBoundNs int64      `json:"error-bound-ns"`
	DriftPPB     int64      `json:"drift-ppb"`
	// Steps counts jumps of CLOCK_TAI that ktsnd has seen; LastStepNs is the last one, below zero if it was set back.
	Steps      uint64 `json:"steps"`
	LastStepNs int64  `json:"last-step-ns"`
}

// Pod is a pod's use of ktsnd, and its limits.
type Pod struct {
	Identity string `json:"identity"`
	// Name is the pod's name, such as "namespace/name"; empty if unknown.
	Name string `json:"name"`
	// Path is the path of the pod's application socket; empty if it has none yet.
	Path      string `json:"path"`
	Endpoints int    `json:"endpoints"`
	// Processes are connections, including ended ones with pending messages.
	Processes       uint64 `json:"processes"`
	Sockets         uint64 `json:"sockets"`
	RingMemoryBytes uint64 `json:"ring-memory-bytes"`
	Pending         uint64 `json:"pending"`
	// RelayConnections are the connections of the pod's relay, counted like Processes.
	RelayConnections uint64 `json:"relay-connections"`
	// UntimedPending is the number of pending frames without a transmit time from the pod's relay; the limit of Pending applies to it
	// separately.
	UntimedPending uint64    `json:"untimed-pending"`
	Limits         PodLimits `json:"limits"`
	// Receive is the state of the pod's sockets with receive rings.
	Receive PodReceive `json:"receive"`
}

// PodReceive counts datagrams for a pod's sockets that have, or had, receive rings.
type PodReceive struct {
	// Sockets is the number of sockets with a ring.
	Sockets uint64 `json:"sockets"`
	// Received counts datagrams that were put into a ring, Dropped those for which it was full.
	Received uint64 `json:"received"`
	Dropped  uint64 `json:"dropped"`
	// Kernel counts datagrams in the kernel's queue of such a socket.
	Kernel uint64 `json:"kernel"`
	// Refused is the number of sockets that got no ring, and Reason is the reason of the last one.
	Refused uint64 `json:"refused"`
	Reason  string `json:"reason"`
	// Refusals are these sockets by reason; nil if ktsnd does not report them.
	Refusals []SocketsFor `json:"refusals"`
	// Left are sockets whose ring is not used any more, because the kernel has to filter each datagram.
	Left []SocketsFor `json:"left"`
}

// SocketsFor is the number of sockets for a reason.
type SocketsFor struct {
	Reason  string `json:"reason"`
	Sockets uint64 `json:"sockets"`
}

// PodLimits are the limits of a pod. Rates are per second; 0 is without limit.
type PodLimits struct {
	Processes       uint64 `json:"processes"`
	Sockets         uint64 `json:"sockets"`
	RingMemoryBytes uint64 `json:"ring-memory-bytes"`
	Pending         uint64 `json:"pending"`
	MessageRate     uint64 `json:"message-rate"`
	DoorbellRate    uint64 `json:"doorbell-rate"`
	HorizonNs       int64  `json:"horizon-ns"`
}

// Flow is a socket of a connected process.
type Flow struct {
	// Number is the number in Departure.Flow; it is never reused.
	Number   uint64 `json:"flow"`
	Identity string `json:"identity"`
	// PID is the process ID at the time of the connection; 0 if it is not visible in ktsnd's PID namespace.
	PID int `json:"pid"`
	// LocalAddress and RemoteAddress have address and port; the latter is empty for a socket that is not connected.
	LocalAddress  string `json:"local-address"`
	RemoteAddress string `json:"remote-address"`
	Clock         string `json:"clock"`
	Deadline      bool   `json:"deadline"`
	// Priority is SO_PRIORITY & 15.
	Priority     uint8  `json:"priority"`
	TrafficClass uint8  `json:"traffic-class"`
	Taken        uint64 `json:"taken"`
	Sent         uint64 `json:"sent"`
	// Late messages are part of Sent.
	Late    uint64 `json:"late"`
	Dropped uint64 `json:"dropped"`
	Pending uint64 `json:"pending"`
	// DepartureErrorNs is the error of the last departure.
	DepartureErrorNs int64 `json:"departure-error-ns"`
}

// Counters counts messages since the daemon started, with a reason for each that did not leave on time.
type Counters struct {
	Taken uint64 `json:"taken"`
	Sent  uint64 `json:"sent"`
	// SentBridge are the messages of Sent to pods of the same node.
	SentBridge uint64 `json:"sent-bridge"`
	OnTime     uint64 `json:"on-time"`
	// Untimed left without a requested transmit time.
	Untimed        uint64 `json:"untimed"`
	LateTaken      uint64 `json:"late-taken"`
	LateWakeup     uint64 `json:"late-wakeup"`
	LatePort       uint64 `json:"late-port"`
	LateUnresolved uint64 `json:"late-unresolved"`
	// LateGate and LateLink are caused by the schedule: the gate of their class was closed, or earlier frames occupied the link.
	LateGate uint64 `json:"late-gate"`
	LateLink uint64 `json:"late-link"`
	// LateClock waited because their network's clock was lost, and left when it was good again.
	LateClock   uint64 `json:"late-clock"`
	DropInvalid uint64 `json:"drop-invalid"`
	// DropHorizon had transmit times beyond the pod's horizon.
	DropHorizon    uint64 `json:"drop-horizon"`
	DropUnresolved uint64 `json:"drop-unresolved"`
	// DropPort were reported as errors by the device, or were due while the link was down.
	DropPort uint64 `json:"drop-port"`
	// DropReceiver : the queue of the receiver, a pod of the same node, was full.
	DropReceiver uint64 `json:"drop-receiver"`
	DropClosed   uint64 `json:"drop-closed"`
	// DropMissed and DropTxtime are strategy etf's: their time had passed when they were due, or when they were
	// taken.
	DropMissed uint64 `json:"drop-missed"`
	DropTxtime uint64 `json:"drop-txtime"`
	// DropMaxSDU were larger than the queue-max-sdu of their class, DropNoWindow than all windows of it.
	DropMaxSDU   uint64 `json:"drop-max-sdu"`
	DropNoWindow uint64 `json:"drop-no-window"`
	// DropSource had a source address of another pod, or a priority that is not granted.
	DropSource uint64 `json:"drop-source"`
	// DropStale were not taken by the port within ktsnd's --stale-after; or were withdrawn from it, because Open vSwitch did not
	// fetch them, so that Sent and its parts went down; or had no transmit time, and were too old when ktsnd took their ring over.
	DropStale uint64 `json:"drop-stale"`
	// DropClock waited too long for their network's clock, or were sent while it refuses messages.
	DropClock uint64 `json:"drop-clock"`
	// DropNoAssociation could not be encrypted, because ktsnd had no key for their node.
	DropNoAssociation uint64 `json:"drop-no-association"`
	// Sealed is the number of frames encrypted, SealedAgain of those that another one overtook, ClearPreferred of those that left
	// in clear for want of a key, as their network allows.
	Sealed         uint64 `json:"sealed"`
	SealedAgain    uint64 `json:"sealed-again"`
	ClearPreferred uint64 `json:"clear-preferred"`
	// ClockLost are those of Sent that left by a clock that was lost.
	ClockLost uint64 `json:"clock-lost"`
	// Uncertain is the number of messages that were leaving when the previous ktsnd was killed: they
	// have left or not, and are not sent again. They do not count as taken.
	Uncertain uint64 `json:"uncertain"`
	// CopiesSent are frames of messages that went to several nodes and pods, CopiesDropped those of their copies
	// that did not leave. Such a message counts as sent when one copy left.
	CopiesSent    uint64 `json:"copies-sent"`
	CopiesDropped uint64 `json:"copies-dropped"`
	// CopiesPruned were not created because no receiver there is a member of the group, CopiesLeftOut because of the limit of copies per
	// message.
	CopiesPruned  uint64 `json:"copies-pruned"`
	CopiesLeftOut uint64 `json:"copies-left-out"`
	// Reports is the number of drops that were reported to applications on request, ReportsLost the number that could not be reported,
	// because the application did not read earlier reports.
	Reports        uint64 `json:"reports"`
	ReportsLost    uint64 `json:"reports-lost"`
	PortRetries    uint64 `json:"port-retries"`
	FramePoolEmpty uint64 `json:"frame-pool-empty"`
	// SharePending, ShareRate and ShareDoorbells count how often a pod reached its limit of pending messages, messages a second, and
	// doorbells a second.
	SharePending   uint64 `json:"share-pending"`
	ShareRate      uint64 `json:"share-rate"`
	ShareDoorbells uint64 `json:"share-doorbells"`
	Wakeups        uint64 `json:"wakeups"`
	Doorbells      uint64 `json:"doorbells"`
	KernelPath     uint64 `json:"kernel-path"`
	// Unanswered is the number of timed messages that failed because ktsnd did not answer, as applications report.
	Unanswered uint64 `json:"unanswered"`
	// OffNetwork is the number of timed messages that failed because they would have left through an interface that is not of the pod's
	// networks, as applications report.
	OffNetwork uint64 `json:"off-network"`
	// LimitRefusals counts connections, sockets and rings that were refused because of a pod's limits.
	LimitRefusals uint64 `json:"limit-refusals"`
	// ShareReceiver counts how often frames to a pod of this node had to wait because receiving took more than the pod's share of a
	// processor.
	ShareReceiver uint64 `json:"share-receiver"`
	// DeliveryFailed counts frames that left for a pod of this node and did not reach it: its link was down or gone, or they waited longer
	// than ktsnd's --stale-after.
	DeliveryFailed uint64 `json:"delivery-failed"`
}

// Late returns the number of messages that left after their time.
func (c Counters) Late() uint64 {
	return c.LateTaken + c.LateWakeup + c.LatePort + c.LateUnresolved + c.LateGate + c.LateLink + c.LateClock
}

// Dropped returns the number of messages that were taken and never left.
func (c Counters) Dropped() uint64 {
	return c.DropInvalid + c.DropHorizon + c.DropUnresolved + c.DropPort + c.DropReceiver + c.DropClosed +
		c.DropMissed + c.DropTxtime + c.DropMaxSDU + c.DropNoWindow +
		c.DropSource + c.DropStale + c.DropClock + c.DropNoAssociation
}
