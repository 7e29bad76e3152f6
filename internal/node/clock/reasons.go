// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"fmt"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

// Reasons in status.clock.history of a TSNNode, and of Events about a node's clock.
const (
	// ReasonSynchronized : the clock is synchronised and accurate enough.
	ReasonSynchronized = "Synchronized"
	// ReasonSettling : the clock was accurate enough in the last measurements, but not yet for as long as required.
	ReasonSettling = "Settling"
	// ReasonErrorTooLarge : the clock is synchronised, but its error may exceed the limit.
	ReasonErrorTooLarge = "ErrorTooLarge"
	// ReasonHoldoverOver : the clock has had no time source for longer than spec.clock.holdover.
	ReasonHoldoverOver = "HoldoverOver"
	// ReasonNobody : no ptp4l and no chronyd was found on the node.
	ReasonNobody = "NobodyKeepsClock"
	// ReasonStranger : an unknown program sets the clock and reports no accuracy.
	ReasonStranger = "KeeperUnknown"
	// ReasonPortLost : no port of ptp4l follows a grandmaster.
	ReasonPortLost = "PortLost"
	// ReasonNoSync : the port of ptp4l follows a grandmaster, but receives no Sync messages.
	ReasonNoSync = "NoSyncMessages"
	// ReasonNotMeasured : ptp4l has found a grandmaster, but not measured the offset yet.
	ReasonNotMeasured = "NotMeasured"
	// ReasonPTPGone : ptp4l does not answer.
	ReasonPTPGone = "PTPGone"
	// ReasonSocketRefused : the socket of ptp4l belongs to another user, or other users can write to it.
	ReasonSocketRefused = "SocketRefused"
	// ReasonNTPLost : chronyd has no time source, or does not run.
	ReasonNTPLost = "NTPLost"
	// ReasonCardClock : the clock of the network card that PTP sets cannot be compared with the system's.
	ReasonCardClock = "CardClockUnreadable"
	// ReasonTAIOffset : the kernel's offset TAI - UTC differs from the grandmaster's, or is 0.
	ReasonTAIOffset = "TAIOffset"
	// ReasonTwoClockMasters : two programs of the node set the same clock.
	ReasonTwoClockMasters = "TwoClockMasters"
)

// reason returns why the clock has no source.
func (e *estimator) reason(o observation) Fault {
	switch {
	case o.noPTP.Reason != "":
		return o.noPTP
	case o.ptp != nil:
		return e.reasonOfPTP(o)
	case e.source == PTP:
		return Fault{ReasonPTPGone, "ptp4l kept this clock and is gone; start it again"}
	case e.source == NTP:
		return Fault{ReasonNTPLost, "chronyd has no source of time any more, or is gone; see `chronyc tracking`"}
	}
	if o.kernel.Synchronized {
		return Fault{ReasonStranger, "a program that is not known keeps this node's clock, and says nothing of how well (what the kernel has as largest " +
			"error is no measure: such programs write 0); use chronyd, or a ptp4l whose socket is in one of the usual places"}
	}
	return Fault{ReasonNobody, "no ptp4l and no chronyd was found that keeps this node's clock; run one (chart value clock.mode: ptp)"}
}

func (e *estimator) reasonOfPTP(o observation) Fault {
	port, measures := o.ptp.Measures()
	reference, _ := o.ptp.Reference()
	switch {
	case reference.Hardware && o.card == nil && (measures || e.grandmaster == o.ptp.Identity):
		return o.noCard
	case !measures && len(o.ptp.Ports) > 0 && !o.ptp.Follows() && !madeGrandmaster(o.ptp):
		first := o.ptp.Ports[0]
		return Fault{ReasonPortLost, fmt.Sprintf("ptp4l follows no grandmaster (port %d, %s, is %s), and was not made to be one: it announces neither a "+
			"clockAccuracy nor a clockClass other than 248; look at the link, and whether the grandmaster runs", first.Number, first.Interface,
			first.State)}
	case !measures && len(o.ptp.Ports) > 0:
		first := o.ptp.Ports[0]
		return Fault{ReasonPortLost, fmt.Sprintf("ptp4l follows no grandmaster (port %d, %s, is %s); look at the link, and whether the "+
			"grandmaster runs", first.Number, first.Interface, first.State)}
	case !measures:
		return Fault{ReasonPortLost, "ptp4l has no port"}
	case o.ptp.Measured == 0 || o.ptp.PathDelay == 0 || o.ptp.Grandmaster != e.grandmaster || e.sampled.IsZero():
		return Fault{ReasonNotMeasured, fmt.Sprintf("ptp4l has found grandmaster %s on %s, but has not measured the offset yet", o.ptp.Grandmaster,
			port.Interface)}
	}
	return Fault{ReasonNoSync, fmt.Sprintf("no Sync message of grandmaster %s comes to %s any more (port %d is %s); look at the link",
		o.ptp.Grandmaster, port.Interface, port.Number, port.State)}
}

// unreadable returns the fault of a card whose clock cannot be compared.
func unreadable(port ptp4l.Port, err error) Fault {
	return Fault{ReasonCardClock, fmt.Sprintf("PTP keeps the clock of the card of %s, which cannot be compared with the system's: %v", port.Interface, err)}
}
