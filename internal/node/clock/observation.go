// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/chrony"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/kernel"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/phc"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

// observation is what the observer read at one moment.
type observation struct {
	// at is the time by the monotonic clock and CLOCK_REALTIME.
	at time.Time
	// ptp is ptp4l's status, nil if it does not answer, for the reason noPTP. Without a ptp4l both are empty.
	ptp   *ptp4l.Status
	noPTP Fault
	// card is the clock of the network card that stamps PTP's packets, if there is one; nil if it could not be read, for the reason noCard.
	card   *phc.Reading
	noCard Fault
	// chrony is chronyd's tracking at chronyAsked, nil without a chronyd.
	chrony      *chrony.Tracking
	chronyAsked time.Time
	kernel      kernel.State
	// step is that of CLOCK_TAI since the last observation.
	step time.Duration
	// faults are those of other kinds.
	faults []Fault
}
