// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/chrony"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/kernel"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/phc"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

// observation is what was found out at one moment.
type observation struct {
	// at by the monotonic clock, and its CLOCK_REALTIME.
	at time.Time
	// ptp is what ptp4l says; nil if it says nothing, for the reason noPTP. Without a ptp4l both are empty.
	ptp   *ptp4l.Status
	noPTP Fault
	// card is the clock of the network card that stamps PTP's packets, if one does; nil if it could not be read, for the reason noCard.
	card   *phc.Reading
	noCard Fault
	// chrony is what chronyd said when it was asked; nil without one.
	chrony      *chrony.Tracking
	chronyAsked time.Time
	kernel      kernel.State
	// step of CLOCK_TAI since the last observation.
	step time.Duration
	// faults of other kinds.
	faults []Fault
}
