// SPDX-License-Identifier: Apache-2.0

package dds

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/bench/internal/ddsperf"
	"github.com/kubernetsn/kubernetsn/bench/internal/inference"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
)

// A remark is a statement with its figures. For a larger or smaller figure it gives the range of the quotient; with one
// repetition, or if that range includes 1, the remark says that the difference may be chance.

// chance is the end of a remark about the quotient of two figures.
func chance(first, other inference.Estimate) string {
	quotient, known := inference.QuotientOf(first, other)
	if !known {
		return " (" + testbed.MayBeChance + ")"
	}
	return " (" + testbed.Range(quotient) + ")"
}

// spread has the smallest and the largest of some shares, and their settings.
type spread struct {
	least, most         float64
	atLeast, atMost     int
	count, above, below int
	// differ of known are shown to differ from 0; the others have one repetition.
	known, differ int
}

// compare adds the relative difference of two figures.
func (s *spread) compare(first, other inference.Estimate, at int) {
	if other.Mean <= 0 {
		return
	}
	if quotient, known := inference.QuotientOf(first, other); known {
		s.known++
		if quotient.Differs() {
			s.differ++
		}
	}
	s.add(first.Mean/other.Mean-1, at)
}

// certainly returns for how many sizes a difference is shown.
func (s *spread) certainly() string {
	if s.known == 0 {
		return testbed.MayBeChance
	}
	return fmt.Sprintf("%d of %d differ with %s", s.differ, s.known, testbed.Confidence)
}

func (s *spread) add(share float64, at int) {
	if s.count == 0 || share < s.least {
		s.least, s.atLeast = share, at
	}
	if s.count == 0 || share > s.most {
		s.most, s.atMost = share, at
	}
	s.count++
	if share > 0 {
		s.above++
	}
	if share < 0 {
		s.below++
	}
}

// text is the spread in percent, with its sign.
func (s *spread) text() string {
	if s.count == 1 {
		return fmt.Sprintf("%+.1f %% (%d B)", 100*s.least, s.atLeast)
	}
	return fmt.Sprintf("%+.1f %% (%d B) to %+.1f %% (%d B)", 100*s.least, s.atLeast, 100*s.most, s.atMost)
}

// compared is the difference of a path from another in a value, by size.
func (r *report) compared(path, base string, sizes []int, kindOf func(int) kind, value string) spread {
	var s spread
	for _, bytes := range sizes {
		estimate, ok := r.estimate(path, kindOf(bytes), value)
		other, both := r.estimate(base, kindOf(bytes), value)
		if ok && both {
			s.compare(estimate, other, bytes)
		}
	}
	return s
}

// latencies are the paper's percentile, and one that a pause of the machine hardly affects.
var latencies = []struct{ name, value string }{{"p90", valueP90}, {"median", valueP50}}

func (r *report) overheadRemarks(sizes []int) []string {
	var remarks []string
	for _, path := range r.profile.Paths {
		if path == testbed.Host {
			continue
		}
		faster := r.compared(path, testbed.Host, sizes, plainOf(throughput), valueBps)
		if faster.count > 0 {
			remarks = append(remarks, fmt.Sprintf("Throughput over %s beside that over host: %s (%s).", path, faster.text(), faster.certainly()))
		}
		for _, compared := range latencies {
			if slower := r.compared(path, testbed.Host, sizes, plainOf(latency), compared.value); slower.count > 0 {
				remarks = append(remarks, fmt.Sprintf("The %s of latency over %s beside that over host: %s (%s).", compared.name, path, slower.text(),
					slower.certainly()))
			}
		}
	}
	for _, other := range []string{testbed.Flannel, testbed.FlannelHostGW, testbed.Primary} {
		remarks = append(remarks, r.beside(testbed.TSN, other, sizes)...)
	}
	return remarks
}

// beside counts for how many sizes one path is better than another.
func (r *report) beside(path, other string, sizes []int) []string {
	if !slices.Contains(r.profile.Paths, path) || !slices.Contains(r.profile.Paths, other) {
		return nil
	}
	var remarks []string
	if s := r.compared(path, other, sizes, plainOf(throughput), valueBps); s.count > 0 {
		remarks = append(remarks, fmt.Sprintf("With %d of %d sizes throughput over %s is higher than over %s (%s): %s.", s.above, s.count, path, other,
			s.certainly(), s.text()))
	}
	for _, compared := range latencies {
		if s := r.compared(path, other, sizes, plainOf(latency), compared.value); s.count > 0 {
			remarks = append(remarks, fmt.Sprintf("With %d of %d sizes the %s of latency over %s is lower than over %s (%s): %s.", s.below, s.count,
				compared.name, path, other, s.certainly(), s.text()))
		}
	}
	return remarks
}

func (r *report) bestEffortRemarks(sizes []int) []string {
	var remarks []string
	for _, path := range r.profile.Paths {
		var s spread
		var timeouts float64
		for _, bytes := range sizes {
			unreliable, ok := r.estimate(path, bySize(latency, true)(bytes), valueP90)
			reliable, both := r.estimate(path, bySize(latency, false)(bytes), valueP90)
			if !ok || !both || reliable.Mean <= 0 {
				continue
			}
			s.compare(unreliable, reliable, bytes)
			if missed, ok := r.estimate(path, bySize(latency, true)(bytes), valueTimeouts); ok {
				timeouts += missed.Mean * float64(missed.Count)
			}
		}
		if s.count == 0 {
			continue
		}
		remarks = append(remarks, fmt.Sprintf("Over %s the p90 of latency with best effort is lower than reliable with %d of %d sizes (%s): %s; %.0f answers were missing for a second.",
			path, s.below, s.count, s.certainly(), s.text(), timeouts))
	}
	return remarks
}

func (r *report) subscriberRemarks(counts []int) []string {
	var remarks []string
	for _, path := range r.profile.Paths {
		for _, count := range counts {
			unicast, ok := r.estimate(path, r.among(throughput, false)(count), valueBps)
			multicast, both := r.estimate(path, r.among(throughput, true)(count), valueBps)
			if !ok || !both || unicast.Mean <= 0 {
				continue
			}
			remarks = append(remarks, fmt.Sprintf("Over %s with %d subscribers multicast brings each %s Mbit/s and unicast %s: %.2f times%s%s.", path, count,
				multicast.Text(megabit, 1), unicast.Text(megabit, 1), multicast.Mean/unicast.Mean, chance(multicast, unicast), r.publishers(path, count)))
		}
		if first, last := r.ends(path, counts); first.count > 0 {
			remarks = append(remarks, fmt.Sprintf("Over %s by unicast a subscriber among %d receives %.0f %% of what one among %d does%s.", path, last.count,
				100*last.Mean/first.Mean, first.count, chance(last.Estimate, first.Estimate)))
		}
	}
	return remarks
}

// publishers compares the publisher's usage.
func (r *report) publishers(path string, count int) string {
	unicast, ok := r.estimate(path, r.among(throughput, false)(count), valuePublisherCores)
	multicast, both := r.estimate(path, r.among(throughput, true)(count), valuePublisherCores)
	if !ok || !both {
		return ""
	}
	return fmt.Sprintf("; the publisher takes %s cores and %s", multicast.Text(1, 2), unicast.Text(1, 2))
}

// counted is an estimate with a number of subscribers.
type counted struct {
	inference.Estimate
	count int
}

// ends are the smallest and the largest number of measured subscribers by unicast; 0 if there are not two.
func (r *report) ends(path string, counts []int) (first, last counted) {
	for _, count := range counts {
		e, ok := r.estimate(path, r.among(throughput, false)(count), valueBps)
		if !ok || e.Mean <= 0 {
			continue
		}
		if first.count == 0 {
			first = counted{e, count}
		}
		last = counted{e, count}
	}
	if first.count == last.count {
		return counted{}, counted{}
	}
	return first, last
}

func (r *report) securityRemarks() []string {
	var remarks []string
	for _, path := range r.securityPaths(r.profile) {
		for _, level := range r.Levels {
			if level == ddsperf.NoSecurity {
				continue
			}
			var parts []string
			for _, comparison := range []struct {
				measure, value, what string
			}{{throughput, valueBps, "%.0f %% of the throughput"}, {latency, valueP90, "%.0f %% of the p90 of latency"}} {
				with, ok := r.estimate(path, r.secured(comparison.measure, level), comparison.value)
				without, both := r.estimate(path, r.secured(comparison.measure, ddsperf.NoSecurity), comparison.value)
				if ok && both && without.Mean > 0 {
					parts = append(parts, fmt.Sprintf(comparison.what, 100*with.Mean/without.Mean)+chance(with, without))
				}
			}
			if len(parts) > 0 {
				remarks = append(remarks, fmt.Sprintf("Over %s, %s has, beside none, %s.", path, level, strings.Join(parts, " and ")))
			}
		}
	}
	return remarks
}
