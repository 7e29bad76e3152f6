// SPDX-License-Identifier: Apache-2.0

package ddsperf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
)

// A line of ddsperf begins with its process number and, for measurements, with the seconds since its start.
const opening = `^\[\d+\] +(\d+\.\d+) +`

var (
	// A subscriber's line each second: sizes and numbers of samples.
	counted = regexp.MustCompile(opening + `size (\d+) total (\d+) lost (\d+) delta (\d+) lost (\d+) rate `)
	// A publisher's line each second and subscriber: halves of round trips.
	timed = regexp.MustCompile(opening + `(\S+) size (\d+) mean ([0-9.]+)us min ([0-9.]+)us 50% ([0-9.]+)us 90% ([0-9.]+)us 99% ([0-9.]+)us max ([0-9.]+)us cnt (\d+)$`)
	// Errors.
	failed  = regexp.MustCompile(`^\[\d+\] (?:\d+\.\d+ +)?error: (.*)$`)
	refused = regexp.MustCompile(`^\d+\.\d+ \[.*\] *ddsperf: (.*)$|^(?:ddsperf: )?(.*(?:invalid option|unrecognised).*)$`)
	timeout = regexp.MustCompile(`^\[\d+\] ping timed out`)
)

// Received are the counts of one subscriber.
type Received struct {
	// Samples and Lost are over the whole run.
	Samples int `json:"samples"`
	Lost    int `json:"lost"`
	// SamplesPerSecond is over the seconds in which samples arrived during the whole second.
	SamplesPerSecond float64 `json:"samples_per_second"`
	// Seconds is the number of those.
	Seconds int `json:"seconds"`
}

// ParseSubscriber reads a subscriber's output.
func ParseSubscriber(from io.Reader) (*Received, error) {
	type second struct {
		at           float64
		total, delta int
	}
	var seconds []second
	result := &Received{}
	err := eachLine(from, func(line string) {
		match := counted.FindStringSubmatch(line)
		if match == nil {
			return
		}
		seconds = append(seconds, second{decimal(match[1]), whole(match[3]), whole(match[5])})
		result.Samples, result.Lost = whole(match[3]), whole(match[4])
	})
	if err != nil {
		return nil, err
	}
	if len(seconds) == 0 {
		return nil, errors.New("the subscriber printed no count of samples; it ended before its first second")
	}
	// The first second with samples began before them, and the last one ended after them.
	first := slices.IndexFunc(seconds, func(s second) bool { return s.delta > 0 })
	if first < 0 {
		return nil, errors.New("no sample arrived at the subscriber")
	}
	last := first
	for i, second := range seconds {
		if second.delta > 0 {
			last = i
		}
	}
	if result.Seconds = last - 1 - first; result.Seconds < 1 {
		return nil, fmt.Errorf("samples arrived at the subscriber during %d seconds, and the first and the last do not count; "+
			"measure longer", last-first+1)
	}
	result.SamplesPerSecond = float64(seconds[last-1].total-seconds[first].total) / (seconds[last-1].at - seconds[first].at)
	return result, nil
}

// Latencies are halves of round trips, over all subscribers.
type Latencies struct {
	// Pings were answered, counted once for each subscriber.
	Pings  int     `json:"pings"`
	MeanNs float64 `json:"mean_ns"`
	// The percentiles are means over ddsperf's values for each second and subscriber, weighted by the number of
	// answers; ddsperf prints none over the whole run.
	P50Ns float64 `json:"p50_ns"`
	P90Ns float64 `json:"p90_ns"`
	P99Ns float64 `json:"p99_ns"`
	MinNs float64 `json:"min_ns"`
	MaxNs float64 `json:"max_ns"`
	// Timeouts is how often ddsperf reports that an answer was missing for a second, at most once a second.
	Timeouts int `json:"timeouts"`
	// Subscribers answered.
	Subscribers int `json:"subscribers"`
}

// ParsePublisher reads the output of a publisher that sent pings.
func ParsePublisher(from io.Reader) (*Latencies, error) {
	result := &Latencies{MinNs: math.Inf(1)}
	who := map[string]bool{}
	err := eachLine(from, func(line string) {
		if timeout.MatchString(line) {
			result.Timeouts++
		}
		match := timed.FindStringSubmatch(line)
		if match == nil {
			return
		}
		who[match[2]] = true
		count := whole(match[10])
		result.Pings += count
		weight := 1e3 * float64(count)
		result.MeanNs += weight * decimal(match[4])
		result.P50Ns += weight * decimal(match[6])
		result.P90Ns += weight * decimal(match[7])
		result.P99Ns += weight * decimal(match[8])
		result.MinNs, result.MaxNs = min(result.MinNs, 1e3*decimal(match[5])), max(result.MaxNs, 1e3*decimal(match[9]))
	})
	if err != nil {
		return nil, err
	}
	if result.Pings == 0 {
		return nil, errors.New("no ping of the publisher was answered")
	}
	for _, sum := range []*float64{&result.MeanNs, &result.P50Ns, &result.P90Ns, &result.P99Ns} {
		*sum /= float64(result.Pings)
	}
	result.Subscribers = len(who)
	return result, nil
}

var (
	used   = regexp.MustCompile(opening + `rss:[0-9.]+MB vcsw:\d+ ivcsw:\d+(.*)$`)
	thread = regexp.MustCompile(`\S+:(\d+)%\+(\d+)%`)
)

// ParseCores reads the processor time of a process in cores: the mean over the seconds with a report, which lists
// threads in whole percents and omits idle ones. It returns false without reports. ddsperf's memory is not read: it is
// the maximum since before the process became ddsperf.
func ParseCores(from io.Reader) (cores float64, ok bool) {
	count := 0
	_ = eachLine(from, func(line string) { // callers that read figures get the errors
		match := used.FindStringSubmatch(line)
		if match == nil {
			return
		}
		count++
		for _, threadMatch := range thread.FindAllStringSubmatch(match[2], -1) {
			cores += float64(whole(threadMatch[1])+whole(threadMatch[2])) / 100
		}
	})
	return cores / max(float64(count), 1), count > 0
}

// Check returns the error of a publisher of samples, whose other output is not used.
func Check(from io.Reader) error {
	return eachLine(from, func(string) {})
}

// eachLine calls take for each line except errors, the first of which it returns.
func eachLine(from io.Reader, take func(string)) error {
	var wrong error
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		line := lines.Text()
		if match := failed.FindStringSubmatch(line); match != nil && wrong == nil {
			wrong = fmt.Errorf("ddsperf: %s", match[1])
		} else if match := refused.FindStringSubmatch(line); match != nil && wrong == nil {
			wrong = fmt.Errorf("ddsperf: %s%s", match[1], match[2])
		} else {
			take(line)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read what ddsperf printed: %w", err)
	}
	return wrong
}

// decimal and whole convert matches of the expressions above.
func decimal(text string) float64 {
	value, _ := strconv.ParseFloat(text, 64)
	return value
}

func whole(text string) int {
	value, _ := strconv.Atoi(text)
	return value
}
