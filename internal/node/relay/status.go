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

// Status is how the relay of an attachment is.
type Status struct {
	overlay.Attachment
	// Device is how a virtual machine in the pod is connected.
	Device device.Device
	// All tells that frames without a transmit time go through the relay, too.
	All bool
	// Running tells that there is a relay, PID which process it is.
	Running bool
	PID     int
	// Failure says why there is none, Away for how long there has been none.
	Failure error
	Away    time.Duration
	// KernelPath tells that frames without a transmit time are to be captured, and relay or ktsnd do not answer: they are dropped where
	// the schedule closes their gate at times, and others go the kernel's way.
	KernelPath bool
	// TooOld tells that the node's ktsnd cannot serve a relay.
	TooOld bool
	// Starts counts the relays that there were.
	Starts uint64
	// Frames counts what became of captured frames: read-, handed- with the kind of frame behind it, drop- with the reason.
	Frames map[string]uint64
}

// silence is for how long there is no heartbeat before it is said: ktsnd is replaced in less time.
const silence = 3 * time.Second

// publish says what there is.
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
	if a.source.look(s, a) {
		a.heard = now
	}
}

func (a *attachment) status(now time.Time) Status {
	all := a.relayed.Mode == capture.All || a.relayed.Device.Is(device.VhostUser)
	status := Status{
		Attachment: a.relayed.Attachment, Device: a.relayed.Device, All: all, Starts: a.starts, Failure: a.failure,
		KernelPath: all && now.Sub(a.heard) > silence,
	}
	if a.process != nil && a.process.running() && a.source.isReady() {
		status.Running, status.PID = true, a.process.command.Process.Pid
	} else {
		status.Away = now.Sub(a.left)
	}
	if a.counters != nil {
		status.Frames, status.TooOld = a.counters.read(), status.Running && a.counters.tooOld()
		a.source.frames(a, status.Frames)
	}
	return status
}

// Trouble says what does not hold of a captured interface: the reason as Events and conditions name it, and a sentence;
// both are empty if all is well. A relay that was just killed is no trouble, because another one is on its way.
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

// withoutVolume says what does not hold of a pod without the volume, which many a pod does without: nothing, as long as it sends no
// transmit times; those are dropped, counted and said by the program at its interface.
func (s *Status) withoutVolume() (reason, sentence string) {
	if !s.KernelPath {
		return "", ""
	}
	return v1alpha1.ReasonKernelPath, fmt.Sprintf("frames of interface %s leave by the kernel, or are dropped if the schedule closes their gate at "+
		"times: %v", s.Interface, s.Failure)
}
