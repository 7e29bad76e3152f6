// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"reflect"
)

// GivenLimits are limits of pods that replace ktsnd's own; nil fields do not.
type GivenLimits struct {
	Processes       *uint64 `json:"processes,omitempty"`
	Sockets         *uint64 `json:"sockets,omitempty"`
	RingMemoryBytes *uint64 `json:"ring-memory-bytes,omitempty"`
	Pending         *uint64 `json:"pending,omitempty"`
	// MessageRate and DoorbellRate are per second; 0 is without limit.
	MessageRate  *uint64 `json:"message-rate,omitempty"`
	DoorbellRate *uint64 `json:"doorbell-rate,omitempty"`
	HorizonNs    *int64  `json:"horizon-ns,omitempty"`
}

// Any reports whether a limit is set.
func (l GivenLimits) Any() bool { return l != GivenLimits{} }

// Equal reports whether both have the same limits.
func (l GivenLimits) Equal(other GivenLimits) bool { return reflect.DeepEqual(l, other) }

// String returns the JSON of the control socket.
func (l GivenLimits) String() string {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // numbers
	}
	return string(text)
}

// NetworkLimits are the limits of the pods of one network.
type NetworkLimits struct {
	VNI    uint32      `json:"vni"`
	Limits GivenLimits `json:"limits"`
}

// NetworkLimitsSet replaces the limits of a network's pods, also of running pods; empty limits remove them.
func (c *Client) NetworkLimitsSet(ctx context.Context, limits NetworkLimits) error {
	return c.command(ctx, "network-limits-set", limits)
}

// NetworkLimits lists the networks that have limits, with the same reserve as Endpoints.
func (c *Client) NetworkLimits(ctx context.Context) ([]NetworkLimits, error) {
	return readPages[NetworkLimits](ctx, c, "network-limits")
}
