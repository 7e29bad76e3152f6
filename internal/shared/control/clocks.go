// SPDX-License-Identifier: Apache-2.0

package control

import "context"

// ClockState is how well a node's clock is kept, as the agent told ktsnd.
type ClockState string

// States of a node's clock.
const (
	ClockSynchronized   ClockState = "synchronized"
	ClockHoldover       ClockState = "holdover"
	ClockUnsynchronized ClockState = "unsynchronized"
	// ClockUnknown is also what an agent that has said nothing leaves.
	ClockUnknown ClockState = "unknown"
)

// ClockQuality is what ktsnd is told of its node's clock.
type ClockQuality struct {
	State ClockState `json:"state"`
	// ErrorBoundNs is what the error of the clock is at most; below zero: not known. From now on it grows by DriftPPB.
	ErrorBoundNs int64 `json:"error-bound-ns"`
	DriftPPB     int64 `json:"drift-ppb"`
}

type clockSetRequest struct {
	requestHeader
	Clock ClockQuality `json:"clock"`
}

// ClockSet says how good the node's clock is. ktsnd believes it until the bound, which grows, is larger than a network allows.
func (c *Client) ClockSet(ctx context.Context, clock ClockQuality) error {
	return c.command(ctx, clockSetRequest{header("clock-set"), clock})
}

// OnClockLoss says what becomes of messages with a transmit time while their network's clock is lost.
type OnClockLoss string

// What may become of them.
const (
	OnLossContinue OnClockLoss = "continue"
	OnLossHold     OnClockLoss = "hold"
	OnLossRefuse   OnClockLoss = "refuse"
)

// ClockNeed is what a network asks of the node's clock, and whether the agent finds the clock good enough for it.
type ClockNeed struct {
	MaxErrorNs int64       `json:"max-error-ns"`
	OnLoss     OnClockLoss `json:"on-loss"`
	Good       bool        `json:"good"`
	// Reason says why it is not good, in a sentence of at most 512 bytes.
	Reason string `json:"reason"`
}

// noNeed is the empty object, by which a network asks nothing of the clock any more.
type noNeed struct{}

type networkClockSetRequest struct {
	requestHeader
	VNI   uint32    `json:"vni"`
	Clock ClockNeed `json:"clock"`
}

type networkClockDropRequest struct {
	requestHeader
	VNI   uint32 `json:"vni"`
	Clock noNeed `json:"clock"`
}

// NetworkClockSet replaces what a network asks of the clock; nil: nothing any more.
func (c *Client) NetworkClockSet(ctx context.Context, vni uint32, need *ClockNeed) error {
	if need == nil {
		return c.command(ctx, networkClockDropRequest{header("network-clock-set"), vni, noNeed{}})
	}
	return c.command(ctx, networkClockSetRequest{header("network-clock-set"), vni, *need})
}

// NetworkClock is a network that asks something of the clock.
type NetworkClock struct {
	VNI uint32 `json:"vni"`
	ClockNeed
	// Lost tells that ktsnd does what OnLoss says: the clock is not good, or its bound has grown beyond MaxErrorNs.
	Lost bool `json:"lost"`
}

type networkClocksReply struct {
	replyHeader
	Total    int            `json:"total"`
	Networks []NetworkClock `json:"network-clocks"`
}

// NetworkClocks lists the networks that ask something of the clock, with the same reserve as Endpoints.
func (c *Client) NetworkClocks(ctx context.Context) ([]NetworkClock, error) {
	return pages(ctx, c, "network-clocks", func(page *networkClocksReply) ([]NetworkClock, int) { return page.Networks, page.Total })
}
