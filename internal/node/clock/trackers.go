// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"math"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

const (
	// recentSamples is the size of the window of offsets, one a second, from which jitter and drift are computed; delaySamples that of path
	// delays and of the card's clock.
	recentSamples, delaySamples = 32, 8
	// frequencySamples is the size of the window of the kernel's frequency, one a second.
	frequencySamples = 60
	// minFrequencySamples show how much the frequency changes; with fewer, the drift is fewSamplesPPB larger.
	minFrequencySamples = 4
	fewSamplesPPB       = 10_000
	// maxDriftPPB is the largest rate error that Linux corrects: 500 ppm by the frequency, and 10 % by the tick, which ptp4l sets, too.
	maxDriftPPB = 100_500_000
	// staleAfter is how long Sync messages may stay away before the source is lost, unless the interval between them is longer.
	staleAfter = 3 * time.Second
	// maxSyncInterval is the longest interval of Sync messages that is waited for.
	maxSyncInterval = 16 * time.Second
	// maxUnchanged is after how many measurements an offset that stays the same counts as measured.
	maxUnchanged = 5
	// samplesAfterStep is how many measurements a step needs: the first may have been made before it.
	samplesAfterStep = 2
	// sameUpdate is by how much chronyd moves the time of a measurement when it corrects the clock.
	sameUpdate = 10 * time.Millisecond
)

// masterTracker finds out whether ptp4l has measured an offset from the grandmaster that it follows. ptp4l computes an offset from a Sync
// message that arrives when the path delay is known, but it reports the time of each Sync message and the path delay independently. Values
// that appear together for the first time belong to an offset of the former grandmaster, or to none, which reads as 0.
//
// After a former grandmaster, which may be the same one that returns, the path delay stays as well until the new one's was measured; then
// only an offset that changes is new.
type masterTracker struct {
	grandmaster  string        // "" while ptp4l follows none
	switched     bool          // since the last measurement
	firstDelayed int64         // ptp4l's time of the first Sync message with a path delay
	staleOffset  time.Duration // when the grandmaster was first seen
	unchanged    int           // measurements with staleOffset
	measured     int64         // ptp4l's time of the last measurement
}

// hasMeasured reports whether the offset in the status is one from the grandmaster in the status.
func (m *masterTracker) hasMeasured(status *ptp4l.Status) bool {
	if status.Measured == 0 {
		return false
	}
	if status.Grandmaster != m.grandmaster {
		m.staleOffset, m.unchanged, m.switched = status.Offset, 0, m.measured != 0
	}
	if status.Grandmaster != m.grandmaster || status.PathDelay == 0 {
		m.grandmaster, m.firstDelayed = status.Grandmaster, 0
	}
	if status.PathDelay != 0 && m.firstDelayed == 0 {
		m.firstDelayed = status.Measured
	}
	if m.switched && status.Offset == m.staleOffset && m.unchanged < maxUnchanged {
		if status.Measured != m.measured { // observations may follow each other faster than measurements
			m.unchanged++
		}
		return false
	}
	if status.PathDelay == 0 || status.Measured == m.firstDelayed {
		return false
	}
	m.switched = false
	return true
}

// delayTracker holds the measurements of the present source.
type delayTracker struct {
	offsets, delays, cards window
	// interval is the longest recent one between measurements.
	interval time.Duration
}

func newDelayTracker() delayTracker {
	return delayTracker{offsets: window{most: recentSamples}, delays: window{most: delaySamples}, cards: window{most: delaySamples}}
}

// reset forgets the measurements of another source.
func (d *delayTracker) reset() {
	d.offsets.reset()
	d.delays.reset()
	d.cards.reset()
	d.interval = 0
}

// sampled notes the time between two measurements.
func (d *delayTracker) sampled(before, now time.Time) {
	if !before.IsZero() {
		d.interval = min(max(now.Sub(before), d.interval*7/8), maxSyncInterval)
	}
}

// patience is how long a source without a new measurement is not lost.
func (d *delayTracker) patience() time.Duration { return max(staleAfter, 3*d.interval) }

// driftTracker computes by how much the error of the clock may grow.
type driftTracker struct {
	// floorPPB is the least drift.
	floorPPB        int64
	frequency       window
	ppb             int64
	frequencyAtLoss float64
}

func newDriftTracker(floorPPB int64) driftTracker {
	return driftTracker{floorPPB: floorPPB, frequency: window{most: frequencySamples}}
}

// measured computes the drift when the source was measured; slope is that of the offsets, in billionths.
func (d *driftTracker) measured(frequencyPPB, slope float64) {
	d.ppb, d.frequencyAtLoss = d.floorPPB+d.changes(slope), frequencyPPB
}

// lost raises the drift of a clock without a source: every change of its rate makes it worse.
func (d *driftTracker) lost(frequencyPPB, slope float64) {
	changed := int64(min(maxDriftPPB, math.Abs(frequencyPPB-d.frequencyAtLoss)))
	d.ppb = max(d.ppb, d.changes(slope), d.floorPPB+changed)
}

// changes is how much the frequency was changed recently, and how fast the offset moved.
func (d *driftTracker) changes(slope float64) int64 {
	ppb := d.frequency.spread() + math.Abs(slope)
	if len(d.frequency.samples) < minFrequencySamples {
		ppb += fewSamplesPPB
	}
	return int64(min(ppb, maxDriftPPB))
}

// stepTracker holds the steps of the clock, of which a program that measured it before them does not know.
type stepTracker struct {
	count uint64
	last  time.Duration
	at    time.Time // of the last one
	// ptp and ntp are the sums of the steps that ptp4l and chronyd have not measured away.
	ptp, ntp time.Duration
	// samples and updates are the measurements of ptp4l and chronyd since the last step.
	samples, updates int
	cardCompared     bool      // since the last step
	updated          time.Time // chronyd's time of its last measurement
}

func (s *stepTracker) step(at time.Time, size time.Duration) {
	s.count++
	s.last, s.at = size, at
	s.ptp += size.Abs()
	s.ntp += size.Abs()
	s.samples, s.updates, s.cardCompared = 0, 0, false
}

// updatedNTP counts chronyd's measurements since the last step. chronyd itself notices somebody else's step with its next measurement only,
// which may be many minutes later.
func (s *stepTracker) updatedNTP(o observation) {
	if o.chrony == nil || !o.chrony.Synchronized || o.chrony.Updated.Sub(s.updated).Abs() < sameUpdate {
		return
	}
	s.updated = o.chrony.Updated
	if o.step != 0 {
		return
	}
	if s.updates++; s.updates >= samplesAfterStep {
		s.ntp = 0
	}
}

// sampledPTP counts ptp4l's measurements since the last step.
func (s *stepTracker) sampledPTP() {
	if s.samples++; s.samples >= samplesAfterStep && s.cardCompared {
		s.ptp = 0
	}
}
