// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/cni"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
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

// attachment is a captured interface and what there is for its relay. What is missing is made at the next look.
type attachment struct {
	captured cni.RelayedAttachment
	// portIndex tells the port from another one of its name.
	portIndex int
	state     State
	tap       *overlay.Tap
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
	// dropped frames found no room in the tap.
	dropped uint64
	// heard is when the heartbeat was last fresh, left when the last relay ended.
	heard, left time.Time
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

// begin makes what a relay needs, and starts one. Frames go to the relay's device only where there is a socket for them.
func (a *attachment) begin(s *Supervisor) error {
	folder, err := socketFolder(a.captured.Socket)
	if err != nil {
		return err
	}
	defer folder.Close()
	if a.state == nil {
		if a.state, err = s.Open(a.captured.PortName()); err != nil {
			return fmt.Errorf("look for the program that captures frames: %w", err)
		}
	}
	if a.tap == nil {
		if a.tap, err = s.Node.MakeTap(&a.captured.Attachment); err != nil {
			return fmt.Errorf("make the relay's device: %w", err)
		}
	}
	if err := a.state.SetRelay(a.tap.Index); err != nil {
		return fmt.Errorf("have captured frames go to %s: %w", a.tap.Name, err)
	}
	if a.packet == nil {
		if a.packet, err = packetSocket(a.captured.Netns, a.captured.Interface, 0); err != nil {
			return err
		}
	}
	if a.counters == nil {
		if a.counters, err = newCounters(); err != nil {
			return err
		}
	}
	return a.start(s, folder)
}

func (a *attachment) start(s *Supervisor, folder *os.File) (err error) {
	given := &descriptors{source: a.tap.File, packet: a.packet, folder: folder, counters: a.counters.file}
	if a.captured.Mode == capture.All {
		if given.heartbeat, err = duplicate(a.state.HeartbeatFD()); err != nil {
			return fmt.Errorf("duplicate the heartbeat for the relay: %w", err)
		}
		defer given.heartbeat.Close()
	}
	a.process, err = s.Program.start(s.starter, &a.captured, given, a.log, s.Wake)
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
	var all error
	if a.state != nil {
		all = errors.Join(all, a.state.SetRelay(0))
	}
	if a.process != nil {
		a.process.end()
	}
	if a.state != nil {
		all = errors.Join(all, a.state.Close())
	}
	if a.packet != nil {
		all = errors.Join(all, a.packet.Close())
	}
	if a.tap != nil {
		all = errors.Join(all, a.tap.Close())
	}
	if a.counters != nil {
		all = errors.Join(all, a.counters.close())
	}
	return all
}
