// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/chrony"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/kernel"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/masters"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/phc"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

// How often what rarely changes is looked at.
const (
	mastersInterval = 30 * time.Second
	// chronyInterval lets chronyd be asked at each regular look, and not at each notification.
	chronyInterval = 900 * time.Millisecond
)

// observer asks all who know something of the clock. It belongs to one goroutine.
type observer struct {
	options Options
	wake    func() // has it look again soon
	steps   kernel.Steps

	ptp      *ptp4l.Client
	path     string // of the socket in use
	inode    uint64 // of the socket; it changes when ptp4l is restarted
	tried    map[string]*attempt
	missed   int // consecutive polls without an answer
	last     *ptp4l.Status
	card     phc.Device
	cardName string

	tracking     *chrony.Tracking // what chronyd said last,
	chronyAsked  time.Time        // when it was asked for that,
	chronyMissed int              // and how often in vain since
	askedChrony  time.Time
	masters      []masters.Master
	faults       []Fault
	searched     time.Time
}

func (o *observer) close() {
	o.hangUp()
	for _, tried := range o.tried {
		tried.end()
	}
	o.closeCard()
}

// changed has an element when ptp4l said that a port's state changed.
func (o *observer) changed() <-chan struct{} {
	if o.ptp == nil {
		return nil
	}
	return o.ptp.Changed()
}

// hurry lets all be asked that ptp4l knows.
func (o *observer) hurry() {
	if o.ptp != nil {
		o.ptp.Hurry()
	}
}

// observe asks all.
func (o *observer) observe(ctx context.Context) observation {
	seen := observation{faults: o.findMasters()}
	chronySays := o.askChrony(ctx) // beside ptp4l: each may keep us waiting
	seen.ptp, seen.noPTP = o.askPTP(ctx)
	seen.chrony, seen.chronyAsked = chronySays()
	seen.at = time.Now()
	seen.card, seen.noCard = o.compareCard(seen.ptp)
	var err error // a step until here may have come after the card's clock was read: that reading does not count
	if seen.step, err = o.steps.Look(); err != nil {
		o.options.Log.Warn("steps of the clock are not seen", "reason", err.Error())
	}
	state, err := kernel.Read()
	if err != nil {
		o.options.Log.Warn("the kernel does not say how the clock is", "reason", err.Error())
	}
	seen.kernel = state
	return seen
}

// askPTP polls ptp4l, connecting to it first if it must.
func (o *observer) askPTP(ctx context.Context) (*ptp4l.Status, Fault) {
	if o.ptp != nil && !o.same() {
		o.hangUp()
	}
	if o.ptp == nil {
		if fault, connected := o.dial(ctx); !connected {
			return nil, fault
		}
	}
	status, err := o.ptp.Poll(ctx)
	if err == nil {
		o.missed, o.last = 0, status
		return status, Fault{}
	}
	const patient = 2 // answers of a ptp4l that waits for a processor come late
	if o.missed++; o.missed < patient && o.last != nil && errors.Is(err, ptp4l.ErrNoAnswer) {
		return o.last, Fault{} // with the measurement as old as it is
	}
	o.hangUp()
	return nil, o.attempt(o.path, o.inode).failed(o.faultOf(o.path, err))
}

// dial connects to the first socket where a ptp4l answers. Without any socket there is no ptp4l, and no fault; else the first one's counts:
// what another program left behind hides no ptp4l that runs.
func (o *observer) dial(ctx context.Context) (fault Fault, connected bool) {
	for _, path := range o.options.PTPSockets {
		inode, err := inodeOf(path)
		if err != nil {
			continue
		}
		tried := o.attempt(path, inode)
		client, err := tried.next(ctx, path, o.options.LocalDir)
		switch {
		case client != nil:
			o.ptp, o.path, o.inode, o.missed, o.last = client, path, inode, 0, nil
			return Fault{}, true
		case err != nil:
			tried.failed(o.faultOf(path, err))
		}
		if fault.Reason == "" {
			fault = tried.fault
		}
	}
	return fault, false
}

// attempt is what is remembered of a socket.
func (o *observer) attempt(path string, inode uint64) *attempt {
	if known := o.tried[path]; known != nil {
		if known.inode == inode {
			return known
		}
		known.end()
	}
	if o.tried == nil {
		o.tried = map[string]*attempt{}
	}
	o.tried[path] = &attempt{inode: inode, ended: o.wake}
	return o.tried[path]
}

// faultOf says what an error of ptp4l's socket means.
func (o *observer) faultOf(path string, err error) Fault {
	var refused *ptp4l.RefusedError
	switch {
	case errors.As(err, &refused):
		return Fault{ReasonSocketRefused, refused.Error()}
	case errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, os.ErrNotExist):
		return Fault{ReasonPTPGone, fmt.Sprintf("nobody reads ptp4l's socket %s; start ptp4l", path)}
	}
	return Fault{ReasonPTPGone, fmt.Sprintf("ptp4l does not answer at %s (%v); look whether it runs", path, err)}
}

// same tells whether the socket is still the one that was connected to.
func (o *observer) same() bool {
	inode, err := inodeOf(o.path)
	return err == nil && inode == o.inode
}

func inodeOf(path string) (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return 0, fmt.Errorf("look at %s: %w", path, err)
	}
	return stat.Ino, nil
}

func (o *observer) hangUp() {
	if o.ptp != nil {
		o.ptp.Close()
		o.ptp = nil
	}
}

// compareCard reads the clock of the card that stamps PTP's packets, if one does.
func (o *observer) compareCard(status *ptp4l.Status) (*phc.Reading, Fault) {
	if status == nil {
		return nil, Fault{}
	}
	port, known := status.Reference()
	if !known || !port.Hardware {
		o.closeCard()
		return nil, Fault{}
	}
	if o.card == nil || o.cardName != port.Interface {
		o.closeCard()
		o.card, o.cardName = o.openCard(port.Interface), port.Interface
	}
	reading, err := o.card.Compare()
	if err != nil {
		o.closeCard()
		return nil, unreadable(port, err)
	}
	return &reading, Fault{}
}

// openCard opens the card's clock, or has it read by who keeps it: a container without privileges cannot.
func (o *observer) openCard(name string) phc.Device {
	card, err := o.options.Card(name)
	if err == nil {
		return card
	}
	return &secondHand{phc.Published(filepath.Dir(o.path), name), err}
}

// secondHand is a card's clock that could not be opened.
type secondHand struct {
	phc.Device
	reason error
}

func (s *secondHand) Compare() (phc.Reading, error) {
	reading, err := s.Device.Compare()
	if err != nil {
		return reading, fmt.Errorf("%w; nor %w", s.reason, err)
	}
	return reading, nil
}

func (o *observer) closeCard() {
	if o.card != nil {
		o.card.Close()
		o.card = nil
	}
}

// askChrony asks the first chronyd that is there. The function returned waits for its answer, and says when it was asked.
func (o *observer) askChrony(ctx context.Context) func() (*chrony.Tracking, time.Time) {
	if now := time.Now(); now.Sub(o.askedChrony) >= chronyInterval {
		answer := make(chan *chrony.Tracking, 1)
		addresses := o.chronyAddresses()
		go func() { answer <- firstChrony(ctx, addresses) }()
		return func() (*chrony.Tracking, time.Time) {
			o.hearChrony(<-answer, now)
			return o.tracking, o.chronyAsked
		}
	}
	return func() (*chrony.Tracking, time.Time) { return o.tracking, o.chronyAsked }
}

// hearChrony processes an answer of chronyd, nil for none. After a single missing answer, as of a chronyd that waits for a processor, the
// last answer stays valid with its age.
func (o *observer) hearChrony(answer *chrony.Tracking, asked time.Time) {
	const patient = 2
	o.askedChrony = asked
	if answer != nil {
		o.tracking, o.chronyAsked, o.chronyMissed = answer, asked, 0
		return
	}
	if o.chronyMissed++; o.chronyMissed >= patient {
		o.tracking = nil
	}
}

// chronyAddresses are those where nobody else than chronyd can answer, or which somebody chose. Any container in the node's network
// namespace may have its port while no chronyd runs.
func (o *observer) chronyAddresses() []string {
	runs := slices.ContainsFunc(o.masters, func(master masters.Master) bool { return master.Program == "chronyd" })
	return slices.DeleteFunc(slices.Clone(o.options.ChronyAddresses), func(address string) bool {
		return !runs && o.options.provenChrony && !filepath.IsAbs(address)
	})
}

func firstChrony(ctx context.Context, addresses []string) *chrony.Tracking {
	for _, address := range addresses {
		if tracking, err := chrony.Ask(ctx, address); err == nil {
			return tracking
		}
	}
	return nil
}

// findMasters looks for a second program that sets the clock.
func (o *observer) findMasters() []Fault {
	now := time.Now()
	if o.options.Proc == "-" || now.Sub(o.searched) < mastersInterval {
		return o.faults
	}
	o.searched, o.faults, o.masters = now, nil, nil
	all, err := masters.Find(o.options.Proc)
	if err != nil {
		o.options.Log.Warn("two programs that set the clock would not be seen", "reason", err.Error())
		return nil
	}
	o.masters = all
	if len(all) > 1 {
		o.faults = []Fault{twoMasters(all)}
	}
	return o.faults
}

func twoMasters(all []masters.Master) Fault {
	var names []string
	set := "all set"
	for _, master := range all {
		names = append(names, master.String())
		if master.Unread != "" {
			set = "may all set"
		}
	}
	return Fault{ReasonTwoClockMasters, fmt.Sprintf("%s %s CLOCK_REALTIME and undo each other's work; leave one (chronyd with -x only measures, "+
		"ptp4l with free_running 1 too)", strings.Join(names, ", "), set)}
}
