// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"slices"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Values of the field unseen: the treatment of datagrams with a transmit time that libktsn.so does not see and that are not
// captured.
const (
	UnseenDrop = "drop"
	UnseenPass = "pass"
)

// frontBytes is the length of the record in front of a captured frame.
func frontBytes(mode capture.Mode) int {
	if mode == capture.None {
		return 0
	}
	return capture.RecordBytes
}

// guard makes the kernel put a record in front of frames that would leave the pod's interface early, or drop them. It
// runs inside the pod's network namespace.
func (s *Spec) guard() error {
	if !isGuarded(s.Unseen, s.Device) {
		return nil
	}
	if err := capture.AttachPod(s.Interface, s.Capture); err != nil {
		return coded(CodeUnguarded, fmt.Errorf(`%w; where that cannot be mended, the field "unseen": "pass" lets them leave early`, err))
	}
	return nil
}

// isGuarded reports whether the pod's interface has the program. The pod's kernel sends nothing at an interface of
// vhost-user. An interface that Kata takes cannot have our filters: Kata adds the queueing discipline ingress, which
// excludes clsact; only the machine sends there.
func isGuarded(unseen string, machine device.Device) bool {
	return unseen != UnseenPass && !machine.Is(device.VhostUser) && !machine.Is(device.Veth)
}

// guardsOthers reports whether the pod's other interfaces have the program, too. A virtual machine's pod is left alone: its own programs
// do not send there, and Kata adds the queueing discipline ingress, which excludes clsact.
func (r *Record) guardsOthers() bool {
	return r.Unseen != UnseenPass && r.KeepsOffNetwork && !r.Device.Exists() && r.Link == nil && !r.Sandbox
}

// guardOthers makes the kernel drop frames with a transmit time at the pod's other interfaces, which they would leave early, and reads how
// many it dropped. The programs stay when the attachment is removed, and end with the pod. An error of one interface does not keep the others
// from being guarded.
func (r *Record) guardOthers(store recordStore) (others []Guarded, err error) {
	if !r.guardsOthers() {
		return nil, nil
	}
	err = r.inPod(func() error {
		links, err := netdev.Dump(netlink.LinkList)
		if err != nil {
			return fmt.Errorf("list the pod's interfaces: %w", err)
		}
		var ours []string
		for _, link := range links {
			// The record is older than the interface, so that one plugged a moment ago has it.
			isOurs, err := store.hasInterface(r.ContainerID, link.Attrs().Name)
			if err != nil {
				return err
			}
			if isOurs {
				ours = append(ours, link.Attrs().Name)
			}
		}
		for _, link := range links {
			name := link.Attrs().Name
			if link.Attrs().Flags&net.FlagLoopback != 0 || isOn(link, links, ours) {
				continue
			}
			guarded := Guarded{Attachment: r.Attachment, Other: true}
			guarded.Interface = name
			var errLink error
			if guarded.Count, errLink = capture.Read(name); errLink == nil && !guarded.Attached {
				guarded.Back, guarded.Count = true, capture.Count{Attached: true}
				errLink = capture.AttachOther(name)
			}
			switch {
			case errLink == nil:
				others = append(others, guarded)
			case !errors.Is(errLink, capture.ErrGone):
				err = errors.Join(err, errLink)
			}
		}
		return err
	})
	return others, err
}

// isOn reports whether an interface is one of ours, or a VLAN device, a macvlan or the like whose frames leave through one of ours.
func isOn(link netlink.Link, links []netlink.Link, ours []string) bool {
	for range links {
		attrs := link.Attrs()
		if slices.Contains(ours, attrs.Name) {
			return true
		}
		parent := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().Index == attrs.ParentIndex })
		if parent < 0 || attrs.NetNsID >= 0 || link.Type() == "veth" {
			return false
		}
		link = links[parent]
	}
	return false
}

// guardOthers keeps messages that libktsn.so does not see from leaving early through the pod's other interfaces.
func (a *adding) guardOthers() error {
	if _, err := a.Record.guardOthers(a.store); err != nil {
		return coded(CodeUnguarded, fmt.Errorf(`%w; where that cannot be mended, args.cni.offNetwork "pass" lets them leave early`, err))
	}
	return nil
}

// isDiverted reports whether the node's end has the program. The node's end of vhost-user has another one, which drops
// all frames of the pod.
func isDiverted(mode capture.Mode, machine device.Device) bool {
	return mode != capture.None && !machine.Is(device.VhostUser)
}

// divert makes the kernel hand captured frames to the relay at the node's end.
func (a *adding) divert(ctx context.Context, portName string) error {
	if !isDiverted(a.Capture, a.Device) {
		return nil
	}
	gated := uint64(capture.AllGated)
	if a.Capture == capture.All {
		gated, _ = a.daemon.gatedPriorities(ctx) // without an answer, all gates count as closed at times
	}
	if err := capture.AttachPort(portName, a.Capture, classBy(a.Device), gated); err != nil {
		return coded(CodeUnguarded, fmt.Errorf(`%w; where that cannot be mended, the field "capture": "None" drops them`, err))
	}
	return nil
}

// checkGuard restores missing programs and reports them: datagrams may have left early, and frames may have reached the
// node.
func (r *Record) checkGuard(node *overlay.Node) error {
	return errors.Join(r.checkReserved(node), r.checkNeighbors(node), r.checkPrograms(), r.keepToRelay())
}

func (r *Record) checkNeighbors(node *overlay.Node) error {
	missing, err := node.KeepNeighbors(r.PortName(), r.neighborSources())
	if err != nil || !missing {
		return err
	}
	return fmt.Errorf("%s lacked the filter that drops ARP and neighbour discovery for addresses that are not the pod's; it is back", r.PortName())
}

// neighborSources returns the addresses for which the pod may answer; nil: any. A link has two ends, so that wrong
// answers concern the other end only.
func (r *Record) neighborSources() *control.Sources {
	if r.Link != nil {
		return nil
	}
	return r.Sources
}

func (r *Record) checkReserved(node *overlay.Node) error {
	missing, err := node.KeepReserved(r.PortName())
	if err != nil || !missing {
		return err
	}
	return fmt.Errorf("%s lacked the filter that keeps what the pod sends to addresses of bridges from the node; it is back", r.PortName())
}

func (r *Record) checkPrograms() error {
	if !r.hasPrograms() {
		return nil
	}
	guarded, err := r.guard(&knownGates{})
	if errors.Is(err, capture.ErrGone) {
		return nil // checkPod reports it
	}
	if err != nil || !guarded.Back {
		return err
	}
	return fmt.Errorf("%s of the pod had lost a filter for datagrams that libktsn.so does not see; it is back", r.Interface)
}

// hasPrograms reports whether one of the interface's ends has a program.
func (r *Record) hasPrograms() bool {
	return isGuarded(r.Unseen, r.Device) || (r.Unseen != UnseenPass && isDiverted(r.Capture, r.Device))
}

// Guarded is an interface with a program at one of its ends.
type Guarded struct {
	overlay.Attachment
	capture.Count
	// Port has the counters at the node's end; all are zero where nothing is captured.
	Port capture.PortCount
	// Other: the interface is not on a network. Its program drops everything that has a transmit time.
	Other bool
	// Back: a program was missing, or the one at the node's end was another release's, and it was attached again.
	Back bool
}

// Guard attaches missing programs to the node's interfaces and reads their counters. Interfaces of pods that are gone
// are left out. An error of one interface does not keep the others from being returned.
func Guard(stateDir string) ([]Guarded, error) {
	return (&GuardRound{StateDir: stateDir, everything: true}).Run()
}

// keepPortFilters restores the filters at the node's end that protect other pods and the node.
func (r *Record) keepPortFilters(node *overlay.Node) error {
	_, err := node.KeepReserved(r.PortName())
	_, errNeighbors := node.KeepNeighbors(r.PortName(), r.neighborSources())
	if err := errors.Join(err, errNeighbors); err != nil {
		return fmt.Errorf("interface %s of container %s: %w", r.Interface, r.ContainerID, err)
	}
	return nil
}

// keepToRelay restores the filter at the node's end of an interface of vhost-user that drops all frames but the
// relay's.
func (r *Record) keepToRelay() error {
	if !r.Device.Is(device.VhostUser) {
		return nil
	}
	return vm.CheckPort(r.PortName())
}

// guard checks both ends of one interface.
func (r *Record) guard(gates *knownGates) (Guarded, error) {
	guarded := Guarded{Attachment: r.Attachment}
	var err error
	if guarded.Count, err = capture.ReadIn(r.Netns, r.Interface); err != nil {
		return guarded, err
	}
	if err := r.guardPort(&guarded, gates); err != nil {
		return guarded, err
	}
	if !isGuarded(r.Unseen, r.Device) || (guarded.Attached && guarded.Mode == r.Capture) {
		return guarded, nil
	}
	guarded.Back = true
	guarded.Count = capture.Count{Attached: true, Mode: r.Capture}
	return guarded, ns.WithNetNSPath(r.Netns, func(ns.NetNS) error { return capture.AttachPod(r.Interface, r.Capture) })
}

// isWanted reports whether the program at the node's end is of this release and configured as the attachment requires.
func (r *Record) isWanted(port *capture.PortCount) bool {
	return port.Attached && !port.Former && port.Mode == r.Capture && port.ClassBy == classBy(r.Device)
}

// guardPort checks the node's end. Without a relay, which would set the program's gates, it gets them from
// ktsnd.
func (r *Record) guardPort(guarded *Guarded, gates *knownGates) (err error) {
	if !isDiverted(r.Capture, r.Device) {
		return nil
	}
	if guarded.Port, err = capture.ReadPort(r.PortName()); err != nil {
		return err
	}
	if r.isWanted(&guarded.Port) {
		if r.Capture != capture.All || guarded.Port.Answers() {
			return nil
		}
		return r.setGated(gates)
	}
	gated, known := gates.of(r.ControlSocket)
	if !known && guarded.Port.Attached && !guarded.Port.Former {
		gated = guarded.Port.GatedPriorities
	}
	guarded.Back, guarded.Port = true, capture.PortCount{Attached: true, Mode: r.Capture, ClassBy: classBy(r.Device), GatedPriorities: gated, HeartbeatAge: -1}
	return capture.AttachPort(r.PortName(), r.Capture, classBy(r.Device), gated)
}

// setGated updates the program's gates, unless ktsnd does not answer.
func (r *Record) setGated(gates *knownGates) error {
	gated, known := gates.of(r.ControlSocket)
	if !known {
		return nil
	}
	state, err := capture.OpenState(r.PortName())
	if err != nil {
		return err
	}
	defer state.Close()
	return state.SetGated(gated)
}

// knownGates caches ktsnd's gates during one round over all interfaces, by control socket.
type knownGates map[string]struct {
	gated uint64
	known bool
}

func (k *knownGates) of(controlSocket string) (gated uint64, known bool) {
	if *k == nil {
		*k = knownGates{}
	}
	got, asked := (*k)[controlSocket]
	if !asked {
		got.gated, got.known = GatedPriorities(controlSocket)
		(*k)[controlSocket] = got
	}
	return got.gated, got.known
}

// linksPerRound is how many links a GuardRound checks each time. A pod can have a thousand, and each takes a visit to
// its network namespace.
const linksPerRound = 50

// visitEvery is after how many rounds a GuardRound visits a pod's network namespace, also if the programs that it found there exist. A visit
// notices new interfaces, and takes ten times as long as reading the programs' counters.
const visitEvery = 3

// GuardRound is Guard for periodic checks: each time it checks the programs of the interfaces on networks and of some of the links, in turn.
// For the other links it returns the last result.
type GuardRound struct {
	StateDir string
	// everything visits all pods and links each time, and checks the filters of interfaces of vhost-user.
	everything bool
	// rounds counts the rounds; programs has the last results of interfaces on networks by the names of their ports, others those of other
	// interfaces by container.
	rounds   uint32
	programs map[string]Guarded
	others   map[string][]Guarded
	// seen has the last results of links by the names of their ports, and those of interfaces that are not on a network; next is where the
	// next turn begins.
	seen map[string]Guarded
	next string
}

// Run runs one round.
func (g *GuardRound) Run() ([]Guarded, error) {
	store := recordStore{g.StateDir}
	records, err := store.withPorts()
	if err != nil {
		return nil, err
	}
	node, err := OpenNode(g.StateDir, 0)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	turn := g.turn(records)
	var all []Guarded
	var failed error
	before := *g
	g.rounds++
	g.seen, g.programs, g.others = map[string]Guarded{}, map[string]Guarded{}, map[string][]Guarded{}
	var gates knownGates
	for _, r := range records {
		name, visit := r.PortName(), before.visits(r)
		if r.Link == nil || turn[name] {
			failed = errors.Join(failed, r.keepPortFilters(node))
		}
		if g.everything {
			failed = errors.Join(failed, r.keepToRelay())
		}
		if _, done := g.others[r.ContainerID]; r.guardsOthers() && !done {
			others, err := before.guardOthers(r, store, visit)
			all, failed = append(all, others...), errors.Join(failed, err)
			for i := range others {
				g.seen[others[i].PortName()] = others[i]
			}
			g.others[r.ContainerID] = others
			if err != nil {
				g.others[r.ContainerID] = nil
			}
		}
		if !r.hasPrograms() {
			continue
		}
		if last, seenBefore := before.seen[name]; r.Link != nil && seenBefore && !turn[name] {
			g.seen[name] = last
			all = append(all, last)
			continue
		}
		if r.Link != nil && !turn[name] {
			continue // its turn comes
		}
		guarded, err := before.guard(r, &gates, visit)
		switch {
		case err == nil:
			all = append(all, guarded)
			guarded.Back = false
			if r.Link != nil {
				g.seen[name] = guarded
			} else {
				g.programs[name] = guarded
			}
		case !errors.Is(err, capture.ErrGone):
			failed = errors.Join(failed, fmt.Errorf("interface %s of container %s: %w", r.Interface, r.ContainerID, err))
		}
	}
	return all, failed
}

// visits reports whether this round visits the network namespace of the record's pod. All of a container's records have the same turn.
func (g *GuardRound) visits(r *Record) bool {
	digest := fnv.New32a()
	digest.Write([]byte(r.ContainerID))
	return g.everything || (digest.Sum32()+g.rounds)%visitEvery == 0
}

// guardOthers is [Record.guardOthers], which visits the pod if it has to.
func (g *GuardRound) guardOthers(r *Record, store recordStore, visit bool) ([]Guarded, error) {
	last := g.others[r.ContainerID]
	if others, ok := reread(last); ok && !visit && last != nil {
		return others, nil
	}
	others, err := r.guardOthers(store)
	for i := range others {
		_, seenBefore := g.seen[others[i].PortName()]
		others[i].Back = others[i].Back && seenBefore // the interface may be new
	}
	if others == nil {
		others = []Guarded{} // it has none
	}
	return others, err
}

// guard is [Record.guard], which visits the pod if it has to.
func (g *GuardRound) guard(r *Record, gates *knownGates, visit bool) (Guarded, error) {
	last, known := g.programs[r.PortName()]
	if !known || visit || !isGuarded(r.Unseen, r.Device) {
		return r.guard(gates)
	}
	again, ok := reread([]Guarded{last})
	if !ok || again[0].Mode != r.Capture {
		return r.guard(gates)
	}
	guarded := Guarded{Attachment: r.Attachment, Count: again[0].Count}
	return guarded, r.guardPort(&guarded, gates)
}

// reread reads the counters of programs at pods' interfaces again; ok is false if one of them is gone.
func reread(last []Guarded) (again []Guarded, ok bool) {
	again = []Guarded{}
	for i := range last {
		guarded := last[i]
		if guarded.Count, ok = guarded.Reread(); !ok {
			return nil, false
		}
		guarded.Back = false
		again = append(again, guarded)
	}
	return again, true
}

// turn chooses the links to check in this round.
func (g *GuardRound) turn(records []*Record) map[string]bool {
	var names []string
	for _, r := range records {
		if r.Link != nil {
			names = append(names, r.PortName())
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	turn := map[string]bool{}
	begin, _ := slices.BinarySearch(names, g.next)
	count := min(linksPerRound, len(names))
	if g.everything {
		count = len(names)
	}
	for i := range count {
		name := names[(begin+i)%len(names)]
		turn[name] = true
		g.next = name + "\x00"
	}
	return turn
}
