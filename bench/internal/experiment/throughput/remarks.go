// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"fmt"
	"strings"

	"github.com/kubernetsn/kubernetsn/bench/internal/inference"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
)

// A remark contains its figures: a ratio of two means has its range, and if that includes 1, the remark says that no
// difference is shown.

// compare compares each network with the bare link, and the tsn network with the other overlay.
func (r *report) compare(tests []string, value string, unit float64, unitName string) []string {
	var remarks []string
	for _, c := range r.groups(tests) {
		for _, pair := range [][2]string{{testbed.Flannel, testbed.Host}, {testbed.FlannelHostGW, testbed.Host}, {testbed.Primary, testbed.Host},
			{testbed.TSN, testbed.Host}, {testbed.TSN, testbed.Flannel}, {testbed.TSN, testbed.FlannelHostGW}, {testbed.TSN, testbed.Primary},
			{testbed.Link, testbed.Host}, {testbed.Link, testbed.Flannel}} {
			estimate, ok := r.estimate(pair[0], c, value)
			other, both := r.estimate(pair[1], c, value)
			ratio, known := inference.QuotientOf(estimate, other)
			if !ok || !both || !known {
				continue
			}
			remarks = append(remarks, fmt.Sprintf("%s: %s over %s and %s over %s, %s.", c.title(),
				estimate.Text(unit, 2)+" "+unitName, pair[0], other.Text(unit, 2)+" "+unitName, pair[1], relation(ratio)))
		}
	}
	return remarks
}

func relation(ratio inference.Quotient) string {
	text := fmt.Sprintf("a ratio of %.2f (%.2f to %.2f with %s)", ratio.Value, ratio.Low, ratio.High, testbed.Confidence)
	if !ratio.Differs() {
		return text + ": no difference is shown"
	}
	return text
}

// grow describes the gain by the larger MTU.
func (r *report) grow(tests []string, value string) []string {
	if len(r.mtus) < 2 {
		return nil
	}
	small, large := r.mtus[0], r.mtus[0]
	for _, mtu := range r.mtus {
		small, large = min(small, mtu), max(large, mtu)
	}
	var remarks []string
	for _, test := range tests {
		var ratios []string
		for _, path := range r.profile.Paths {
			estimate, ok := r.estimate(path, cell{test, r.underlays()[0], large}, value)
			other, both := r.estimate(path, cell{test, r.underlays()[0], small}, value)
			if ratio, known := inference.QuotientOf(estimate, other); ok && both && known {
				ratios = append(ratios, fmt.Sprintf("%.2f over %s (%s)", ratio.Value, path, testbed.Range(ratio)))
			}
		}
		if len(ratios) > 0 {
			remarks = append(remarks, fmt.Sprintf("%s with an MTU of %d, times that with %d: %s.", titles[test], large, small, strings.Join(ratios, ", ")))
		}
	}
	return remarks
}

// smallest is the smallest share of a core that is shown.
const smallest = 0.0001

// mostOf describes the largest usage of each component.
func (r *report) mostOf(names []string) []string {
	var remarks []string
	for _, name := range names {
		most, at := inference.Estimate{}, ""
		for _, c := range r.groups(r.Tests) {
			for _, path := range r.profile.Paths {
				if e, ok := r.estimate(path, c, name); ok && (at == "" || e.Mean > most.Mean) {
					most, at = e, fmt.Sprintf("%s over %s", c.title(), path)
				}
			}
		}
		switch {
		case at == "" || name == testbed.MachineCores || name == testbed.PacketCores:
		case most.Mean < smallest:
			remarks = append(remarks, fmt.Sprintf("%s took less than %v of a core in each test.", heads([]string{name})[0], smallest))
		default:
			remarks = append(remarks, fmt.Sprintf("%s took %s of a core at most, during %s.", heads([]string{name})[0], most.Text(1, 4), at))
		}
	}
	return remarks
}
