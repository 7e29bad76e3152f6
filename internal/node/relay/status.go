// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Status is the state of an attachment's relay.
type Status struct {
	overlay.Attachment
	// Device is how a virtual machine in the pod is connected.
	Device device.Device
	// All: untimed frames go through the relay, too.
	All bool
	// Running: the relay runs, as process PID.
	Running bool
	PID     int
	// Failure is why the relay does not run, Away for how long it has not.
	Failure error
	Away    time.Duration
	// KernelPath: untimed frames shall be captured, but relay or ktsnd do not answer. Frames whose gate the schedule closes at
	// times are dropped; others take the kernel's path.
	KernelPath bool
	// TooOld: the node's ktsnd cannot serve relays.
	TooOld bool
	// Starts counts starts of the relay.
	Starts uint64
	// Frames counts captured frames by outcome: read- and handed- followed by the kind of frame, drop- followed by the reason.
	Frames map[string]uint64
}

// silence is the heartbeat's age beyond which KernelPath is set. Replacing ktsnd takes less time.
const silence = 3 * time.Second

// publish updates the state that Status returns.
func (s *Supervisor) publish(now time.Time) {
	var all []Status
	for _, a := range s.attached {
		a.observe(s, now)
		all = append(all, a.status(now))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses = all
}

// observe looks at what changes without this program.
func (a *attachment) observe(s *Supervisor, now time.Time) {
	if a.source.observe(s, a) {
		a.answeredAt = now
	}
}

// takesAll reports whether the relay also takes frames without a transmit time.
func (a *attachment) takesAll() bool {
	return a.relayed.Mode == capture.All || a.relayed.Device.Is(device.VhostUser)
}

func (a *attachment) status(now time.Time) Status {
	all := a.takesAll()
	status := Status{
		Attachment: a.relayed.Attachment, Device: a.relayed.Device, All: all, Starts: a.starts, Failure: a.failure,
		KernelPath: all && now.Sub(a.answeredAt) > silence,
	}
	if a.process != nil && a.process.running() && a.source.isReady() {
		status.Running, status.PID = true, a.process.command.Process.Pid
	} else {
		status.Away = now.Sub(a.endedAt)
	}
	if a.counters != nil {
		status.Frames, status.TooOld = a.counters.read(), status.Running && a.counters.tooOld()
		a.source.frames(a, status.Frames)
	}
	return status
}

// Trouble returns the problem of a captured interface: the reason of Events and conditions, and a message; both are empty if
// there is none. A relay that has just ended is not a problem, because it is restarted.
func (s *Status) Trouble() (reason, sentence string) {
	switch {
	case !s.Running && errors.Is(s.Failure, errNoVolume):
		return s.withoutVolume()
	case !s.Running && s.Away > silence && s.Failure != nil:
		return v1alpha1.ReasonRelayAway, fmt.Sprintf("the relay of interface %s is away, so that captured frames wait on the node, and are dropped "+
			"when they are too many: %s", s.Interface, strings.ReplaceAll(s.Failure.Error(), "\n", "; "))
	case s.TooOld:
		return v1alpha1.ReasonKtsndTooOld, fmt.Sprintf("the node's ktsnd is of a release that takes no captured frames, so those of interface %s are not "+
			"sent; upgrade ktsnd", s.Interface)
	case s.KernelPath:
		return v1alpha1.ReasonKernelPath, fmt.Sprintf("frames of interface %s without a transmit time leave by the kernel, or are dropped if the schedule "+
			"closes their gate at times, because ktsnd does not take them; `ktsn node capture` on the node shows more", s.Interface)
	}
	return "", ""
}

// withoutVolume returns the problem of a pod without the volume. Many pods do not need it: it is a problem only if untimed
// frames shall be captured. Timed frames are dropped and counted by the program at the interface, and reported from there.
func (s *Status) withoutVolume() (reason, sentence string) {
	if !s.KernelPath {
		return "", ""
	}
	return v1alpha1.ReasonKernelPath, fmt.Sprintf("frames of interface %s leave by the kernel, or are dropped if the schedule closes their gate at "+
		"times: %v", s.Interface, s.Failure)
}
