// SPDX-License-Identifier: Apache-2.0

package iperf3

import (
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]Result{
		"tcp.json":       {ReceivedBps: 5817234133, Retransmits: 663, ClientCores: 0.2567, ServerCores: 0.2590},
		"udp-60000.json": {ReceivedBps: 2584366150, LostShare: 1 - 647040000.0/933000000.0, ClientCores: 0.5111, ServerCores: 0.1335},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := os.Open(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			got, err := Parse(file)
			if err != nil {
				t.Fatal(err)
			}
			near := func(a, b, within float64) bool { return math.Abs(a-b) <= within }
			if !near(got.ReceivedBps, want.ReceivedBps, 1) || got.Retransmits != want.Retransmits || !near(got.LostShare, want.LostShare, 1e-9) ||
				!near(got.ClientCores, want.ClientCores, 1e-4) || !near(got.ServerCores, want.ServerCores, 1e-4) {
				t.Errorf("%+v\nwant %+v", *got, want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	refused, err := os.ReadFile("testdata/refused.json")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		string(refused):                        "iperf3: unable to connect to server: Connection refused",
		"":                                     "iperf3 said nothing",
		"iperf3: error":                        "iperf3 printed no JSON",
		`{"start":{},"intervals":[],"end":{}}`: "iperf3 printed no sum",
		`{"end":{"sum_sent":{"bytes":100},"sum_received":{"bytes":0}}}`: "nothing that iperf3 sent arrived",
	} {
		if _, err := Parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want %q", text, err, want)
		}
	}
}

func TestArguments(t *testing.T) {
	test := Test{Server: netip.MustParseAddr("10.42.2.2"), Port: 5201, UDP: true, BufferBytes: 60000, Duration: 3 * time.Second, Omit: time.Second}
	want := strings.Fields("--client 10.42.2.2 --port 5201 --json --time 3 --omit 1 --udp --bitrate 0 --length 60000")
	if got := test.ClientArguments(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
