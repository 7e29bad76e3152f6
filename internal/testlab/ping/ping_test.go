// SPDX-License-Identifier: Apache-2.0

package ping

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

func read(t *testing.T, name string) (*Result, error) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	return Parse(file)
}

func TestParse(t *testing.T) {
	got, err := read(t, "answered.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got.Sent != 10 || got.Received != 10 || len(got.RoundTripsNs) != 10 || got.RoundTripsNs[7] != 167000 {
		t.Errorf("%+v", got)
	}
	if mean := got.MeanNs(); math.Abs(mean-59100) > 1 { // ping's own figure, except for rounding
		t.Errorf("mean %v", mean)
	}
	if got.Percentile(50) != 46000 || got.Percentile(90) != 56000 || got.Percentile(100) != 167000 {
		t.Errorf("p50 %d, p90 %d, p100 %d", got.Percentile(50), got.Percentile(90), got.Percentile(100))
	}
}

func TestParseErrors(t *testing.T) {
	for name, want := range map[string]string{
		"unanswered.txt": "none of 3 echo requests was answered",
		"too-large.txt":  "ping: local error: message too long, mtu=1500",
	} {
		if _, err := read(t, name); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", name, err, want)
		}
	}
	if _, err := Parse(strings.NewReader("PING 192.0.2.2 (192.0.2.2) 56(84) bytes of data.\n")); err == nil {
		t.Error("half an output is taken for a whole one")
	}
	if _, err := Parse(strings.NewReader("64 bytes from 192.0.2.2: icmp_seq=1 ttl=64 time=0.05 ms (DUP!)\n" +
		"1 packets transmitted, 0 received, 100% packet loss, time 1ms\n")); err == nil {
		t.Error("a duplicate is taken for an answer")
	}
}

func TestArguments(t *testing.T) {
	test := Test{To: netip.MustParseAddr("10.42.2.2"), Count: 100, Interval: 5 * time.Millisecond, PayloadBytes: 56}
	if want := strings.Fields("-n -M do -W 1 -c 100 -s 56 -i 0.005 10.42.2.2"); !slices.Equal(test.Arguments(), want) {
		t.Errorf("%v", test.Arguments())
	}
}
