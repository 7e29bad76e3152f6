// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Program is what has to be on the path, and Package what brings it.
const (
	Program = "ping"
	Package = "iputils-ping"
)

// HeaderBytes is what IPv4 and ICMP take of a packet besides its payload.
const HeaderBytes = 28

// Test is a series of echo requests.
type Test struct {
	To           netip.Addr
	Count        int
	Interval     time.Duration
	PayloadBytes int
}

// Arguments are those of the program, which prints what Parse reads. Packets are not fragmented.
func (t *Test) Arguments() []string {
	return []string{"-n", "-M", "do", "-W", "1", "-c", strconv.Itoa(t.Count), "-s", strconv.Itoa(t.PayloadBytes),
		"-i", strconv.FormatFloat(t.Interval.Seconds(), 'f', -1, 64), t.To.String()}
}

// Result is what became of them.
type Result struct {
	Sent     int `json:"sent"`
	Received int `json:"received"`
	// RoundTripsNs are those of each answer, in the order in which they came.
	RoundTripsNs []int64 `json:"round_trips_ns"`
}

// MeanNs is the mean round trip.
func (r *Result) MeanNs() float64 {
	var sum int64
	for _, one := range r.RoundTripsNs {
		sum += one
	}
	return float64(sum) / float64(len(r.RoundTripsNs))
}

// Percentile is by nearest rank.
func (r *Result) Percentile(percent int) int64 {
	sorted := slices.Sorted(slices.Values(r.RoundTripsNs))
	return sorted[max((len(sorted)*percent+99)/100, 1)-1]
}

var (
	answer = regexp.MustCompile(`icmp_seq=\d+ ttl=\d+ time=([0-9.]+) ms( \(DUP!\))?$`)
	counts = regexp.MustCompile(`^(\d+) packets transmitted, (\d+) received`)
	// refusal is what the sending kernel has to say, such as that a packet is larger than the MTU.
	refusal = regexp.MustCompile(`^ping: (.*)$|^From \S+ icmp_seq=\d+ (.*)$`)
)

// Parse reads what the program printed.
func Parse(from io.Reader) (*Result, error) {
	result := &Result{}
	said := ""
	ended := false
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		line := lines.Text()
		if found := answer.FindStringSubmatch(line); len(found) > 2 && found[2] == "" {
			milliseconds, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				return nil, fmt.Errorf("ping printed a time of %s ms", found[1])
			}
			result.RoundTripsNs = append(result.RoundTripsNs, int64(milliseconds*1e6+0.5))
		} else if found := counts.FindStringSubmatch(line); found != nil {
			result.Sent, _ = strconv.Atoi(found[1]) // digits
			result.Received, _ = strconv.Atoi(found[2])
			ended = true
		} else if found := refusal.FindStringSubmatch(line); found != nil && said == "" {
			said = found[1] + found[2]
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read what ping printed: %w", err)
	}
	err := result.check(ended, said)
	return result, err
}

func (r *Result) check(ended bool, said string) error {
	switch {
	case ended && len(r.RoundTripsNs) > 0:
		return nil
	case said != "":
		return fmt.Errorf("ping: %s", said)
	case !ended:
		return errors.New("ping printed no count of packets; it was interrupted, or is not that of iputils")
	}
	return fmt.Errorf("none of %d echo requests was answered", r.Sent)
}
