// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	attachments "github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

const (
	// lookEvery is how often to look at everything, peekEvery whether there is something new: a pod's programs start soon after
	// its interface is there.
	lookEvery = time.Second
	peekEvery = 100 * time.Millisecond
	// mostRelays bounds the processes of a node; kubelet allows 110 pods unless told otherwise.
	mostRelays = 512
)

// Programs are how relays are started.
type Programs struct {
	// Captured is ktsn-relay, Guests ktsn-relay-vhost.
	Captured, Guests Program
}

// Supervisor runs the relays of a node.
type Supervisor struct {
	Programs Programs
	// Node makes devices.
	Node *overlay.Node
	// List returns whose frames go through a relay. An error comes beside what could be read nevertheless.
	List func() ([]attachments.RelayedAttachment, error)
	// Changed tells whether there may be other interfaces than when it was last asked.
	Changed func() bool
	// Open opens the state of the program at a port.
	Open func(portName string) (State, error)
	Log  *slog.Logger

	starter *starter
	wake    chan struct{}
	once    sync.Once
	// compare asks for a look at the programs at ports, which costs more than one at the rest.
	compare  atomic.Bool
	attached map[string]*attachment
	// unended were released, and their relays were killed and still run.
	unended []*attachment
	// looked is when it looked last, awaited tells that something was there in part.
	looked  time.Time
	awaited bool
	// missing is since when ports are not there, by name.
	missing map[string]time.Time
	// failed is why it could not be looked, as it was logged last.
	failed string

	mu       sync.Mutex
	statuses []Status
}

// New makes the supervisor of a node whose tsn-cni has a state directory.
func New(stateDir string, node *overlay.Node, programs Programs, log *slog.Logger) *Supervisor {
	changes := &attachments.Changes{StateDir: stateDir}
	return &Supervisor{
		Programs: programs, Node: node, Log: log,
		List:    func() ([]attachments.RelayedAttachment, error) { return attachments.Relayed(stateDir) },
		Changed: changes.Any,
		Open:    openState,
	}
}

func (s *Supervisor) prepare() { s.once.Do(func() { s.wake = make(chan struct{}, 1) }) }

// Wake has it look at once.
func (s *Supervisor) Wake() {
	s.prepare()
	select {
	case s.wake <- struct{}{}:
	default: // it is to look anyway
	}
}

// Compare has it look at once, also whether ports have other programs than it knows.
func (s *Supervisor) Compare() {
	s.compare.Store(true)
	s.Wake()
}

// Status returns what there was at the last look, by port.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.statuses)
}

// Run runs the relays until ctx ends, and then ends them and removes their devices.
func (s *Supervisor) Run(ctx context.Context) error {
	s.prepare()
	s.starter, s.attached, s.missing = newStarter(), map[string]*attachment{}, map[string]time.Time{}
	defer s.starter.end()
	ticks := time.NewTicker(peekEvery)
	defer ticks.Stop()
	s.look(time.Now())
	for {
		select {
		case <-ctx.Done():
			return s.releaseAll()
		case <-s.wake:
			s.look(time.Now())
		case now := <-ticks.C:
			if s.due(now) {
				s.look(now)
			}
		}
	}
}

// due tells whether it is time to look.
func (s *Supervisor) due(now time.Time) bool {
	if s.Changed() || s.awaited || now.Sub(s.looked) >= lookEvery {
		return true
	}
	for _, a := range s.attached {
		if a.process == nil && now.After(a.next) {
			return true
		}
	}
	return false
}

// look makes what there is what there shall be.
func (s *Supervisor) look(now time.Time) {
	s.looked, s.awaited = now, false
	if s.compare.Swap(false) {
		for _, a := range s.attached {
			a.comparedAt = time.Time{}
		}
	}
	relayed, err := s.List()
	s.complain(err)
	wanted := map[string]*attachments.RelayedAttachment{}
	for i := range relayed {
		wanted[relayed[i].PortName()] = &relayed[i]
	}
	var gone []*attachment
	for port, a := range s.attached {
		if !a.holds(s, wanted[port], now) {
			gone = append(gone, a)
			delete(s.attached, port)
		}
	}
	s.release(gone)
	s.unended = slices.DeleteFunc(s.unended, func(a *attachment) bool { return !a.process.running() })
	maps.DeleteFunc(s.missing, func(port string, _ time.Time) bool { return wanted[port] == nil })
	for _, port := range slices.Sorted(maps.Keys(wanted)) {
		s.settle(port, wanted[port], now)
	}
	s.publish(now)
}

// complain logs what cannot be looked at, once as long as it is for the same reason.
func (s *Supervisor) complain(err error) {
	text := ""
	if err != nil {
		text = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if text != "" && text != s.failed {
		s.Log.Warn("cannot look at what is captured", "error", text)
	}
	s.failed = text
}

// settle looks after one attachment. What fails of one is its own.
func (s *Supervisor) settle(port string, wanted *attachments.RelayedAttachment, now time.Time) {
	a := s.attached[port]
	if a == nil {
		index, err := s.Node.PortIndex(&wanted.Attachment)
		if err != nil || index == 0 {
			s.await(port, now)
			return
		}
		delete(s.missing, port)
		a = &attachment{
			relayed: *wanted, source: newSource(wanted), portIndex: index, comparedAt: now, heard: now, left: now,
			log: s.Log.With("pod", wanted.Identity, "interface", wanted.Interface),
		}
		s.attached[port] = a
	}
	if a.process == nil {
		if err := s.mayStart(a); err != nil {
			a.fail(err, now)
			return
		}
	}
	a.settle(s, now)
}

// mayStart returns why another relay must not be started. Relays of virtual machines take so much memory that a node's pods could use
// up all that relays have, and pods of one namespace could leave none to others.
func (s *Supervisor) mayStart(a *attachment) error {
	if s.running(anyKind) >= mostRelays {
		return fmt.Errorf("the node runs %d relays already and starts no more", mostRelays)
	}
	if !a.isOfGuest() {
		return nil
	}
	guests := &s.Programs.Guests
	if guests.Most > 0 && s.running((*attachment).isOfGuest) >= guests.Most {
		return fmt.Errorf("the node runs %d relays of vhost-user already and starts no more; ktsn-agent's option --vhost-relays (value "+
			"agent.vhostRelays of the chart) sets how many", guests.Most)
	}
	namespace := a.relayed.Namespace
	sameNamespace := func(other *attachment) bool { return other.isOfGuest() && other.relayed.Namespace == namespace }
	if guests.MostOfNamespace > 0 && namespace != "" && s.running(sameNamespace) >= guests.MostOfNamespace {
		return fmt.Errorf("the node runs %d relays of vhost-user for pods of namespace %s already and starts no more for them; ktsn-agent's option "+
			"--vhost-relays-per-namespace (value agent.vhostRelaysPerNamespace of the chart) sets how many", guests.MostOfNamespace, namespace)
	}
	return nil
}

func anyKind(*attachment) bool { return true }

func (a *attachment) isOfGuest() bool { return a.relayed.Device.Is(device.VhostUser) }

// await looks again soon for a port that the plugin is about to make, or has just removed; not as soon once it has been missing
// for long: its pod may be gone without the plugin.
func (s *Supervisor) await(port string, now time.Time) {
	if _, known := s.missing[port]; !known {
		s.missing[port] = now
	}
	if now.Sub(s.missing[port]) < patience {
		s.awaited = true
	}
}

// running counts relays, with those that were killed and have not ended: these keep their memory.
func (s *Supervisor) running(is func(*attachment) bool) int {
	count := 0
	for _, a := range s.attached {
		if a.process != nil && is(a) {
			count++
		}
	}
	for _, a := range s.unended {
		if is(a) {
			count++
		}
	}
	return count
}

// release ends several at once: each may take twice endPatience. It keeps those whose relays still run then.
func (s *Supervisor) release(all []*attachment) {
	var ending sync.WaitGroup
	for _, a := range all {
		ending.Add(1)
		go func() {
			defer ending.Done()
			if err := a.release(); err != nil {
				a.log.Info("took the relay's things apart", "error", strings.ReplaceAll(err.Error(), "\n", "; "))
			}
		}()
	}
	ending.Wait()
	for _, a := range all {
		if a.process != nil && a.process.running() {
			s.unended = append(s.unended, a)
		}
	}
}

func (s *Supervisor) releaseAll() error {
	s.release(slices.Collect(maps.Values(s.attached)))
	s.attached = nil
	s.publish(time.Now())
	return nil
}

// holds tells whether the attachment is still what is wanted, and the kernel has still what is held of it.
func (a *attachment) holds(s *Supervisor, wanted *attachments.RelayedAttachment, now time.Time) bool {
	if wanted == nil || *wanted != a.relayed {
		return false
	}
	if now.Sub(a.comparedAt) < compareEvery {
		return true
	}
	a.comparedAt = now
	if index, err := s.Node.PortIndex(&a.relayed.Attachment); err == nil && index != a.portIndex {
		return false
	}
	return a.source.holds(s, a)
}
