// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
)

// DefaultInstanceDir is the folder of an instance in the chart's pods.
const DefaultInstanceDir = "/run/ktsnd"

// States of an instance.
const (
	StateStarting   = "starting"
	StateServing    = "serving"
	StateStandingBy = "standing-by"
)

// probeBytes exceeds the length of an answer.
const probeBytes = 4096

// ProbeAnswer is the state of one instance of ktsnd, which need not be the one that serves the node.
type ProbeAnswer struct {
	Version int    `json:"version"`
	State   string `json:"state"`
	PID     int    `json:"pid"`
	// Instance is its name, or empty.
	Instance string `json:"instance"`
	// Why is the reason for standing by; empty in other states.
	Why string `json:"why"`
}

// Probe asks the instance that owns the folder.
func Probe(ctx context.Context, folder string) (*ProbeAnswer, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unixpacket", filepath.Join(folder, "probe.sock"))
	if err != nil {
		return nil, fmt.Errorf("connect to this ktsnd: %w", err)
	}
	defer conn.Close()
	if deadline, limited := ctx.Deadline(); limited {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, fmt.Errorf("wait for this ktsnd: %w", err)
		}
	}
	data := make([]byte, probeBytes)
	count, err := conn.Read(data)
	if err != nil {
		return nil, fmt.Errorf("read this ktsnd's answer: %w", err)
	}
	var answer ProbeAnswer
	if err := json.Unmarshal(data[:count], &answer); err != nil {
		return nil, fmt.Errorf("decode this ktsnd's answer: %w", err)
	}
	if answer.Version != protocolVersion {
		return nil, fmt.Errorf("this ktsnd answers probes in version %d, this program asks in version %d", answer.Version, protocolVersion)
	}
	return &answer, nil
}
