// SPDX-License-Identifier: Apache-2.0

package control

import "context"

// ClockState is the synchronization of a node's clock, as the agent reported it.
type ClockState string

// States of a node's clock.
const (
	ClockSynchronized   ClockState = "synchronized"
	ClockHoldover       ClockState = "holdover"
	ClockUnsynchronized ClockState = "unsynchronized"
	// ClockUnknown is the state until the agent reports one.
	ClockUnknown ClockState = "unknown"
)

// ClockQuality is the agent's report about the node's clock.
type ClockQuality struct {
	State ClockState `json:"state"`
	// ErrorBoundNs is the bound of the clock's error; below zero: unknown. It grows by DriftPPB from now on.
	ErrorBoundNs int64 `json:"error-bound-ns"`
	DriftPPB     int64 `json:"drift-ppb"`
}

// ClockSet reports the quality of the node's clock. A network loses its clock when the growing bound exceeds the network's limit.
func (c *Client) ClockSet(ctx context.Context, clock ClockQuality) error {
	return c.command(ctx, "clock-set", fields{"clock": clock})
}

// OnClockLoss is the treatment of messages with a transmit time while their network's clock is lost.
type OnClockLoss string

// Treatments of messages while the clock is lost.
const (
	OnLossContinue OnClockLoss = "continue"
	OnLossHold     OnClockLoss = "hold"
	OnLossRefuse   OnClockLoss = "refuse"
)

// ClockNeed is a network's requirement for the node's clock, and whether the clock meets it.
type ClockNeed struct {
	MaxErrorNs int64       `json:"max-error-ns"`
	OnLoss     OnClockLoss `json:"on-loss"`
	Good       bool        `json:"good"`
	// Reason explains why the clock is not good, in at most 512 bytes.
	Reason string `json:"reason"`
}

// NetworkClockSet replaces a network's requirement for the clock; nil removes it.
func (c *Client) NetworkClockSet(ctx context.Context, vni uint32, need *ClockNeed) error {
	var clock any = need
	if need == nil {
		clock = struct{}{} // the empty object removes it
	}
	return c.command(ctx, "network-clock-set", fields{"vni": vni, "clock": clock})
}

// NetworkClock is a network with a requirement for the clock.
type NetworkClock struct {
	VNI uint32 `json:"vni"`
	ClockNeed
	// Lost reports that ktsnd applies OnLoss: the clock is not good, or its bound exceeds MaxErrorNs.
	Lost bool `json:"lost"`
}

// NetworkClocks lists the networks with a requirement for the clock, with the same reserve as Endpoints.
func (c *Client) NetworkClocks(ctx context.Context) ([]NetworkClock, error) {
	return readPages[NetworkClock](ctx, c, "network-clocks")
}
