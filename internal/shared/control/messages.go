// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// protocolVersion is the "version" of every message of this protocol.
const protocolVersion = 1

// requestHeader opens every request.
type requestHeader struct {
	Version int    `json:"version"`
	Request string `json:"request"`
}

type statusRequest struct {
	requestHeader
}

type instanceRequest struct {
	requestHeader
}

type socketAddRequest struct {
	requestHeader
	Identity string `json:"identity"`
	Path     string `json:"path"`
}

type socketDelRequest struct {
	requestHeader
	Identity string `json:"identity"`
}

type podNameSetRequest struct {
	requestHeader
	Identity string `json:"identity"`
	Name     string `json:"name"`
}

type endpointAddRequest struct {
	requestHeader
	Endpoint
}

type endpointDelRequest struct {
	requestHeader
	Identity  string `json:"identity"`
	Interface string `json:"interface"`
}

type peerAddRequest struct {
	requestHeader
	Peer
}

type peerDelRequest struct {
	requestHeader
	VNI     uint32     `json:"vni"`
	Address netip.Addr `json:"address"`
}

// listRequest asks for one page of endpoints, pods, limits of networks, flows or peers.
type listRequest struct {
	requestHeader
	Offset int `json:"offset"`
	Limit  int `json:"limit"`
}

type departuresRequest struct {
	requestHeader
	After uint64 `json:"after"`
	Limit int    `json:"limit"`
}

type traceStartRequest struct {
	requestHeader
	Identity string `json:"identity"`
	Flow     uint64 `json:"flow"`
}

type traceReadRequest struct {
	requestHeader
	After uint64 `json:"after"`
	Limit int    `json:"limit"`
}

type traceStopRequest struct {
	requestHeader
}

type scheduleSetRequest struct {
	requestHeader
	Schedule GateSchedule `json:"schedule"`
}

type scheduleGetRequest struct {
	requestHeader
}

type strategySetRequest struct {
	requestHeader
	Strategy string `json:"strategy"`
}

type trafficClassesSetRequest struct {
	requestHeader
	TrafficClassMap    TrafficClassMap    `json:"traffic-class-map"`
	PriorityCodePoints PriorityCodePoints `json:"priority-code-points"`
}

// replyHeader opens every reply. Error is set instead of Reply when the daemon refused.
type replyHeader struct {
	Version int    `json:"version"`
	Reply   string `json:"reply,omitempty"`
	Error   *Error `json:"error,omitempty"`
}

func (h *replyHeader) header() *replyHeader { return h }

// reply is what each reply type gets by embedding replyHeader.
type reply interface {
	header() *replyHeader
}

type okReply struct {
	replyHeader
}

type statusReply struct {
	replyHeader
	Status Status `json:"status"`
}

type instanceReply struct {
	replyHeader
	Instance Instance `json:"instance"`
}

type endpointsReply struct {
	replyHeader
	Total     int                `json:"total"`
	Endpoints []AttachedEndpoint `json:"endpoints"`
}

type podsReply struct {
	replyHeader
	Total int   `json:"total"`
	Pods  []Pod `json:"pods"`
}

type flowsReply struct {
	replyHeader
	Total int    `json:"total"`
	Flows []Flow `json:"flows"`
}

type peersReply struct {
	replyHeader
	Total int    `json:"total"`
	Peers []Peer `json:"peers"`
}

type groupsReply struct {
	replyHeader
	Total  int          `json:"total"`
	Groups []NodeGroups `json:"groups"`
}

type departuresReply struct {
	replyHeader
	Overwritten uint64      `json:"overwritten"`
	Departures  []Departure `json:"departures"`
}

type traceReply struct {
	replyHeader
	Overwritten uint64          `json:"overwritten"`
	Messages    []TracedMessage `json:"messages"`
}

type scheduleReply struct {
	replyHeader
	Schedule
}

// decodeReply reads a reply of the wanted kind; a refusal is an *Error. Unknown fields are those of a newer
// ktsnd.
func decodeReply(data []byte, wanted string, into reply) error {
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode %s reply: %w", wanted, err)
	}
	header := into.header()
	switch {
	case header.Version != protocolVersion:
		return fmt.Errorf("ktsnd speaks version %d of the control protocol, this program version %d",
			header.Version, protocolVersion)
	case header.Error != nil:
		return header.Error
	case header.Reply != wanted:
		return fmt.Errorf("ktsnd replied %q instead of %q", header.Reply, wanted)
	}
	return nil
}
