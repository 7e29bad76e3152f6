// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	attachments "github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

const (
	// minPause and maxPause bound the pause before a relay is restarted; each failure doubles it.
	minPause = 100 * time.Millisecond
	maxPause = 10 * time.Second
	// patience is how long tsn-cni may take between creating an interface and attaching its program.
	patience = 2 * time.Second
	// steady is the running time of a relay after which the pause starts at minPause again.
	steady = 10 * time.Second
	// compareEvery is the period of checks whether the interface has another program. The agent asks for one after it has restored one.
	compareEvery = 20 * time.Second
)

// attachment is an interface with the resources of its relay. The next reconciliation creates missing ones.
type attachment struct {
	relayed attachments.RelayedAttachment
	// portIndex distinguishes the port from a later one with the same name.
	portIndex int
	source    source
	packet    *os.File
	counters  *counters
	process   *process
	log       *slog.Logger

	started, comparedAt time.Time
	// next is the time of the next try after a failure, pause the length of the last pause.
	next  time.Time
	pause time.Duration
	// failure is why there is no relay.
	failure error
	// starts counts starts of the relay.
	starts uint64
	// answeredAt is when ktsnd last took untimed frames, endedAt when the last relay ended.
	answeredAt, endedAt time.Time
}

// source is the source of an attachment's frames: the capturing program or a virtual machine.
type source interface {
	// begin creates missing resources and adds the source's program, options and files to the order.
	begin(s *Supervisor, a *attachment, with *order) error
	// observe updates state that other programs change. It reports whether ktsnd takes untimed frames.
	observe(s *Supervisor, a *attachment) (taken bool)
	// isReady reports whether frames can reach a running relay.
	isReady() bool
	// holds reports whether the kernel's objects are still those that the source holds.
	holds(s *Supervisor, a *attachment) bool
	// frames adds the counters of this kind of source.
	frames(a *attachment, counted map[string]uint64)
	// stop stops the flow of frames, before the relay ends. release frees the resources, after it ended.
	stop() error
	release() error
}

func newSource(relayedAttachment *attachments.RelayedAttachment) source {
	if relayedAttachment.Device.Is(device.VhostUser) {
		return &guestSource{path: relayedAttachment.VhostSocket()}
	}
	return &capturedSource{}
}

// settle starts the relay if it does not run and the pause is over.
func (a *attachment) settle(s *Supervisor, now time.Time) {
	if a.process != nil && !a.process.running() {
		a.ended(now)
	}
	if a.process != nil || now.Before(a.next) {
		return
	}
	err := a.begin(s)
	if errors.Is(err, capture.ErrUnattached) && now.Sub(a.endedAt) < patience {
		s.awaited = true
		return
	}
	if err != nil {
		a.fail(err, now)
		return
	}
	a.started, a.failure = now, nil
	a.starts++
	a.log.Info("the relay has been started", "pid", a.process.command.Process.Pid)
}

// begin creates missing resources and starts the relay. It fails if the pod has no application socket.
func (a *attachment) begin(s *Supervisor) (err error) {
	folder, err := socketFolder(a.relayed.Socket)
	if err != nil {
		return err
	}
	defer folder.Close()
	if a.packet == nil {
		if a.packet, err = packetSocket(a.relayed.Netns, a.relayed.Interface, 0); err != nil {
			return err
		}
	}
	if a.counters == nil {
		gated := uint64(capture.AllGated)
		if a.relayed.Device.Is(device.VhostUser) { // only these relays can bypass ktsnd
			gated, _ = attachments.GatedPriorities(a.relayed.ControlSocket)
		}
		if a.counters, err = newCounters(gated); err != nil {
			return err
		}
	}
	with := newOrder(a.packet, folder, a.counters, a.relayed.Socket)
	defer with.close()
	if err := a.source.begin(s, a, with); err != nil {
		return err
	}
	a.process, err = with.start(s.starter, a.log, s.Wake)
	return err
}

// ended records how the relay ended. The next relay counts frames that this one had read and not handed on as lost.
func (a *attachment) ended(now time.Time) {
	err := a.process.err
	if err == nil {
		err = errors.New("it ended by itself")
	}
	a.process, a.endedAt = nil, now
	if now.Sub(a.started) > steady {
		a.pause = 0
	}
	a.fail(fmt.Errorf("the relay has ended: %w", err), now)
}

// fail schedules the next try after a pause that doubles with each failure.
func (a *attachment) fail(err error, now time.Time) {
	a.pause = min(max(2*a.pause, minPause), maxPause)
	a.next = now.Add(a.pause)
	if a.failure == nil || a.failure.Error() != err.Error() {
		a.log.Warn("the relay is away", "error", err, "again", a.pause)
	}
	a.failure = err
}

// release ends the relay and frees all resources. Afterwards the filter drops and counts frames, or the kernel forwards them.
func (a *attachment) release() error {
	all := a.source.stop()
	if a.process != nil && !a.process.end() {
		all = errors.Join(all, fmt.Errorf("process %d does not end, although it was killed: it waits for a file system of the pod's; its place "+
			"stays taken", a.process.command.Process.Pid))
	}
	all = errors.Join(all, a.source.release())
	if a.packet != nil {
		all = errors.Join(all, a.packet.Close())
	}
	if a.counters != nil {
		all = errors.Join(all, a.counters.close())
	}
	return all
}
