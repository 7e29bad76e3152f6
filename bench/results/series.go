// SPDX-License-Identifier: Apache-2.0

package results

// Series are the samples of one run: the messages of all its alternations in the order of their transmit times.
type Series struct {
	Key
	LatencyNs []int64
	// MeasuredNs is for each latency how long the run had been measured when the message was due, without the time of
	// others' turns.
	MeasuredNs []int64
	// JitterNs is signed.
	JitterNs []int64
	// LaunchNs and DepartureNs are empty without observations of the wire or without ktsnd.
	LaunchNs    []int64
	DepartureNs []int64
}
