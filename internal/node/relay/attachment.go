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
	// leastPause and mostPause are how long to wait before a relay is started again; each failure doubles it.
	leastPause = 100 * time.Millisecond
	mostPause  = 10 * time.Second
	// patience is how long tsn-cni may take from an interface to the program at it.
	patience = 2 * time.Second
	// steady is how long a relay runs that did not fail at once.
	steady = 10 * time.Second
	// compareEvery is how often to look whether the interface has another program now.
	compareEvery = 5 * time.Second
)

// attachment is an interface and what there is for its relay. What is missing is made at the next look.
type attachment struct {
	relayed attachments.RelayedAttachment
	// portIndex tells the port from another one of its name.
	portIndex int
	source    source
	packet    *os.File
	counters  *counters
	process   *process
	log       *slog.Logger

	started, comparedAt time.Time
	// next is when to try again after a failure, pause how long to wait after the next one.
	next  time.Time
	pause time.Duration
	// failure is why there is no relay.
	failure error
	// starts counts the relays that were started.
	starts uint64
	// heard is when ktsnd last took frames without a transmit time, left when the last relay ended.
	heard, left time.Time
}

// source is where an attachment's frames come from.
type source interface {
	// begin makes what is missing, and adds to an order what a relay needs beside what all relays do.
	begin(s *Supervisor, a *attachment, with *order) error
	// look looks at what changes without this program. It tells whether ktsnd takes frames without a transmit time.
	look(s *Supervisor, a *attachment) (taken bool)
	// isReady tells whether it can be reached once a relay runs.
	isReady() bool
	// holds tells whether the kernel has still what is held.
	holds(s *Supervisor, a *attachment) bool
	// frames adds what is counted of this source alone.
	frames(a *attachment, counted map[string]uint64)
	// stop has no more frames come, before the relay ends; release takes the rest apart.
	stop() error
	release() error
}

func newSource(relayedAttachment *attachments.RelayedAttachment) source {
	if relayedAttachment.Device.Is(device.VhostUser) {
		return &guestSource{at: relayedAttachment.VhostSocket()}
	}
	return &capturedSource{}
}

// settle makes what is missing and starts the relay, if it is time to.
func (a *attachment) settle(s *Supervisor, now time.Time) {
	if a.process != nil && !a.process.running() {
		a.ended(now)
	}
	if a.process != nil || now.Before(a.next) {
		return
	}
	err := a.begin(s)
	if errors.Is(err, capture.ErrUnattached) && now.Sub(a.left) < patience {
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

// begin makes what a relay needs, and starts one. Frames go to it only where there is a socket for them.
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
		if a.relayed.Device.Is(device.VhostUser) { // only their relays have a way past ktsnd
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

// ended says how a relay ended. What it had read and not handed on, the next one counts as lost.
func (a *attachment) ended(now time.Time) {
	err := a.process.err
	if err == nil {
		err = errors.New("it ended by itself")
	}
	a.process, a.left = nil, now
	if now.Sub(a.started) > steady {
		a.pause = 0
	}
	a.fail(fmt.Errorf("the relay has ended: %w", err), now)
}

// fail puts the next try off, longer with each failure.
func (a *attachment) fail(err error, now time.Time) {
	a.pause = min(max(2*a.pause, leastPause), mostPause)
	a.next = now.Add(a.pause)
	if a.failure == nil || a.failure.Error() != err.Error() {
		a.log.Warn("the relay is away", "error", err, "again", a.pause)
	}
	a.failure = err
}

// release takes it all apart. Frames that come from then on are dropped and counted by the filter, or the kernel forwards them.
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
