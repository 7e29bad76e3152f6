// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	attachments "github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

const (
	// reconcileEvery is the period of full reconciliations, which read each record and the counters of each device; reconcileAllEvery is the
	// period while frames without a transmit time go through a relay, too, and ktsnd's answers are observed. pollEvery is the period of the
	// check for changes: a pod's programs start soon after its interface exists.
	reconcileEvery    = 5 * time.Second
	reconcileAllEvery = time.Second
	pollEvery         = 100 * time.Millisecond
	// maxRelays limits the relay processes of a node; kubelet's default limit is 110 pods.
	maxRelays = 512
)

// Programs are the relay programs.
type Programs struct {
	// Captured is ktsn-relay, Guests ktsn-relay-vhost.
	Captured, Guests Program
}

// Supervisor runs the relays of a node.
type Supervisor struct {
	Programs Programs
	// Node creates devices.
	Node *overlay.Node
	// List returns the attachments whose frames go through a relay. With an error it returns those that could be read.
	List func() ([]attachments.RelayedAttachment, error)
	// Changed reports whether the interfaces may have changed since the last call.
	Changed func() bool
	// Open opens the state of the program at a port.
	Open func(portName string) (State, error)
	Log  *slog.Logger

	starter *starter
	wake    chan struct{}
	once    sync.Once
	// compare requests that the next reconciliation also checks the programs at ports, which is more expensive.
	compare  atomic.Bool
	attached map[string]*attachment
	// unended were released, but their relays still run although they were killed.
	unended []*attachment
	// reconciled is the time of the last reconciliation; awaited: it found something incomplete.
	reconciled time.Time
	awaited    bool
	// missing has the times since which ports are missing, by name.
	missing map[string]time.Time
	// failed is the last logged error of List.
	failed string

	mu       sync.Mutex
	statuses []Status
}

// New returns the supervisor for the attachments in tsn-cni's state directory.
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

// Wake triggers a reconciliation.
func (s *Supervisor) Wake() {
	s.prepare()
	select {
	case s.wake <- struct{}{}:
	default: // a reconciliation is pending already
	}
}

// Compare triggers a reconciliation that also checks whether ports have other programs now.
func (s *Supervisor) Compare() {
	s.compare.Store(true)
	s.Wake()
}

// Status returns the state at the last reconciliation.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.statuses)
}

// Run runs the relays until ctx ends, then ends them and removes their devices.
func (s *Supervisor) Run(ctx context.Context) error {
	s.prepare()
	s.starter, s.attached, s.missing = newStarter(), map[string]*attachment{}, map[string]time.Time{}
	defer s.starter.end()
	ticks := time.NewTicker(pollEvery)
	defer ticks.Stop()
	s.reconcile(time.Now())
	for {
		select {
		case <-ctx.Done():
			return s.releaseAll()
		case <-s.wake:
			s.reconcile(time.Now())
		case now := <-ticks.C:
			if s.due(now) {
				s.reconcile(now)
			}
		}
	}
}

// due reports whether it is time to reconcile.
func (s *Supervisor) due(now time.Time) bool {
	if s.Changed() || s.awaited || now.Sub(s.reconciled) >= reconcileEvery {
		return true
	}
	for _, a := range s.attached {
		if a.takesAll() && now.Sub(s.reconciled) >= reconcileAllEvery {
			return true
		}
		if a.process == nil && now.After(a.next) {
			return true
		}
	}
	return false
}

// reconcile releases attachments that are gone or have changed, and starts missing relays.
func (s *Supervisor) reconcile(now time.Time) {
	s.reconciled, s.awaited = now, false
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

// complain logs an error of List when it differs from the last one.
func (s *Supervisor) complain(err error) {
	text := ""
	if err != nil {
		text = errortext.OneLine(err)
	}
	if text != "" && text != s.failed {
		s.Log.Warn("cannot read all captured interfaces", "error", text)
	}
	s.failed = text
}

// settle reconciles one attachment.
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
			relayed: *wanted, source: newSource(wanted), portIndex: index, comparedAt: now, answeredAt: now, endedAt: now,
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

// mayStart returns an error if a limit forbids another relay. Relays of virtual machines need so much memory that pods could
// exhaust the relays' share, and pods of one namespace could leave none for others.
func (s *Supervisor) mayStart(a *attachment) error {
	if s.running(anyKind) >= maxRelays {
		return fmt.Errorf("the node runs %d relays already and starts no more", maxRelays)
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

// await makes the next poll look again for a port that the plugin is about to create or has just removed. After patience it
// does not: the pod may be gone without a call of the plugin.
func (s *Supervisor) await(port string, now time.Time) {
	if _, known := s.missing[port]; !known {
		s.missing[port] = now
	}
	if now.Sub(s.missing[port]) < patience {
		s.awaited = true
	}
}

// running counts the chosen relays, including killed ones that still run, because these keep their memory.
func (s *Supervisor) running(chosen func(*attachment) bool) int {
	count := 0
	for _, a := range s.attached {
		if a.process != nil && chosen(a) {
			count++
		}
	}
	for _, a := range s.unended {
		if chosen(a) {
			count++
		}
	}
	return count
}

// release releases attachments concurrently, because each may take twice endPatience. It adds those whose relays still run to unended.
func (s *Supervisor) release(all []*attachment) {
	var ending sync.WaitGroup
	for _, a := range all {
		ending.Add(1)
		go func() {
			defer ending.Done()
			if err := a.release(); err != nil {
				a.log.Info("cannot release all of the relay's resources", "error", errortext.OneLine(err))
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

// holds reports whether the attachment is unchanged and the kernel still has its port and program.
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
