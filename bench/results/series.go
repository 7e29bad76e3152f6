// SPDX-License-Identifier: Apache-2.0

package results

// Series are the samples of one run, of the messages of all its alternations one after the other, in the order of
// their transmit times.
type Series struct {
	Key
	LatencyNs []int64
	// MeasuredNs is for each latency how long the run had been measured when the message was due, without the time
	// in which others had their turn.
	MeasuredNs []int64
	// JitterNs is signed.
	JitterNs []int64
	// LaunchNs and DepartureNs are empty where nobody saw the wire, or no ktsnd took part.
	LaunchNs    []int64
	DepartureNs []int64
}
