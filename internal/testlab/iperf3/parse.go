// SPDX-License-Identifier: Apache-2.0

package iperf3

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Result is the result of a transfer.
type Result struct {
	// ReceivedBps is the throughput that the server counted, in bit/s of payload.
	ReceivedBps float64 `json:"received_bps"`
	// Retransmits are TCP's, 0 for UDP.
	Retransmits int `json:"retransmits"`
	// LostShare is the share of the sent bytes that did not arrive; 0 for TCP.
	LostShare float64 `json:"lost_share"`
	// The processor time of iperf3's two ends, in cores.
	ClientCores float64 `json:"client_cores"`
	ServerCores float64 `json:"server_cores"`
}

// output is the part of iperf3's JSON that is used.
type output struct {
	Error string `json:"error"`
	Start struct {
		Test struct {
			Protocol string `json:"protocol"`
		} `json:"test_start"`
	} `json:"start"`
	End struct {
		Sent     *sum `json:"sum_sent"`
		Received *sum `json:"sum_received"`
		CPU      struct {
			Host   float64 `json:"host_total"`
			Remote float64 `json:"remote_total"`
		} `json:"cpu_utilization_percent"`
	} `json:"end"`
}

type sum struct {
	Bytes         float64 `json:"bytes"`
	BitsPerSecond float64 `json:"bits_per_second"`
	Retransmits   int     `json:"retransmits"`
}

// Parse reads the client's output.
func Parse(from io.Reader) (*Result, error) {
	var out output
	if err := json.NewDecoder(from).Decode(&out); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("iperf3 said nothing")
		}
		return nil, fmt.Errorf("iperf3 printed no JSON: %w", err)
	}
	if out.Error != "" {
		return nil, fmt.Errorf("iperf3: %s", out.Error)
	}
	sent, received := out.End.Sent, out.End.Received
	if sent == nil || received == nil {
		return nil, errors.New("iperf3 printed no sum of what was sent and received; it was interrupted, or is older than 3.12")
	}
	if received.Bytes <= 0 {
		return nil, errors.New("nothing that iperf3 sent arrived")
	}
	result := &Result{ReceivedBps: received.BitsPerSecond, Retransmits: sent.Retransmits,
		ClientCores: out.End.CPU.Host / 100, ServerCores: out.End.CPU.Remote / 100}
	if out.Start.Test.Protocol == "UDP" && sent.Bytes > 0 {
		result.LostShare = max(0, 1-received.Bytes/sent.Bytes)
	}
	return result, nil
}

// refused is the client's error when no server listens.
const refused = "Connection refused"

// NotListening reports whether an error of Parse means that the server does not listen yet.
func NotListening(err error) bool {
	return strings.Contains(err.Error(), refused)
}
