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

// Program must be on the path; Package contains it.
const (
	Program = "ping"
	Package = "iputils-ping"
)

// HeaderBytes is the size of the IPv4 and ICMP headers.
const HeaderBytes = 28

// Test is a series of echo requests.
type Test struct {
	To           netip.Addr
	Count        int
	Interval     time.Duration
	PayloadBytes int
}

// Arguments returns the arguments of the program, whose output Parse reads. Packets are not fragmented.
func (t *Test) Arguments() []string {
	return []string{"-n", "-M", "do", "-W", "1", "-c", strconv.Itoa(t.Count), "-s", strconv.Itoa(t.PayloadBytes),
		"-i", strconv.FormatFloat(t.Interval.Seconds(), 'f', -1, 64), t.To.String()}
}

// Result is the result of a test.
type Result struct {
	Sent     int `json:"sent"`
	Received int `json:"received"`
	// RoundTripsNs are the round trips in the order in which the answers came.
	RoundTripsNs []int64 `json:"round_trips_ns"`
}

// MeanNs is the mean round trip.
func (r *Result) MeanNs() float64 {
	var sum int64
	for _, roundTrip := range r.RoundTripsNs {
		sum += roundTrip
	}
	return float64(sum) / float64(len(r.RoundTripsNs))
}

// Percentile returns a percentile by nearest rank.
func (r *Result) Percentile(percent int) int64 {
	sorted := slices.Sorted(slices.Values(r.RoundTripsNs))
	return sorted[max((len(sorted)*percent+99)/100, 1)-1]
}

var (
	answer = regexp.MustCompile(`icmp_seq=\d+ ttl=\d+ time=([0-9.]+) ms( \(DUP!\))?$`)
	counts = regexp.MustCompile(`^(\d+) packets transmitted, (\d+) received`)
	// refusal matches errors of the sending kernel, such as a packet larger than the MTU.
	refusal = regexp.MustCompile(`^ping: (.*)$|^From \S+ icmp_seq=\d+ (.*)$`)
)

// Parse reads the program's output.
func Parse(from io.Reader) (*Result, error) {
	result := &Result{}
	message := ""
	ended := false
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		line := lines.Text()
		if match := answer.FindStringSubmatch(line); len(match) > 2 && match[2] == "" {
			milliseconds, err := strconv.ParseFloat(match[1], 64)
			if err != nil {
				return nil, fmt.Errorf("ping printed a time of %s ms", match[1])
			}
			result.RoundTripsNs = append(result.RoundTripsNs, int64(milliseconds*1e6+0.5))
		} else if match := counts.FindStringSubmatch(line); match != nil {
			result.Sent, _ = strconv.Atoi(match[1]) // digits
			result.Received, _ = strconv.Atoi(match[2])
			ended = true
		} else if match := refusal.FindStringSubmatch(line); match != nil && message == "" {
			message = match[1] + match[2]
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read what ping printed: %w", err)
	}
	err := result.check(ended, message)
	return result, err
}

func (r *Result) check(ended bool, message string) error {
	switch {
	case ended && len(r.RoundTripsNs) > 0:
		return nil
	case message != "":
		return fmt.Errorf("ping: %s", message)
	case !ended:
		return errors.New("ping printed no count of packets; it was interrupted, or is not that of iputils")
	}
	return fmt.Errorf("none of %d echo requests was answered", r.Sent)
}
