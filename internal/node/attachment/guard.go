// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Values of the field unseen: what becomes of datagrams with a transmit time that libktsn.so does not see and that are
// not captured.
const (
	unseenDrop = "drop"
	unseenPass = "pass"
)

func (c *Config) readUnseen(raw json.RawMessage) error {
	if err := decode(raw, &c.Unseen, `"drop" or "pass"`); err != nil {
		return err
	}
	if c.Unseen != unseenDrop && c.Unseen != unseenPass {
		return fmt.Errorf(`%q is neither; give "drop", or "pass" to let datagrams out early that libktsn.so does not see`, c.Unseen)
	}
	return nil
}

func (c *Config) readCapture(raw json.RawMessage) error {
	var text string
	if err := decode(raw, &text, `"None", "Timed" or "All"`); err != nil {
		return err
	}
	mode, err := capture.ParseMode(text)
	c.wanted = &mode
	return err
}

// readGuardOfPod reads what is asked for one pod, which goes before what the network has. Who writes a pod cannot have it
// send past the gates of a network that captures everything.
func (c *Config) readGuardOfPod(text []byte) error {
	everything := c.wanted != nil && *c.wanted == capture.All
	if err := c.readAskedOfPod(text); err != nil {
		return err
	}
	c.asksForLess = everything && (c.wanted == nil || *c.wanted != capture.All)
	return nil
}

// checkAskedOfPod finds what no pod gets that is to be attached; one that has it already can be detached.
func (c *Config) checkAskedOfPod() error {
	if c.asksForLess {
		return invalid(`args.cni: the network captures "All", and no pod of it less; leave out "unseen" and "capture"`)
	}
	return nil
}

func (c *Config) readAskedOfPod(text []byte) error {
	var asked struct {
		Args struct {
			CNI struct {
				Unseen  json.RawMessage `json:"unseen"`
				Capture json.RawMessage `json:"capture"`
			} `json:"cni"`
		} `json:"args"`
	}
	if json.Unmarshal(text, &asked) != nil {
		return nil // what is wrong with args has been said
	}
	of := asked.Args.CNI
	if of.Unseen != nil {
		if err := c.readUnseen(of.Unseen); err != nil {
			return invalid("args.cni.unseen: %v", err)
		}
		if c.Unseen == unseenPass {
			c.wanted = nil // the network's, which contradicts
		}
	}
	if of.Capture != nil {
		if err := c.readCapture(of.Capture); err != nil {
			return invalid("args.cni.capture: %v", err)
		}
		if of.Unseen == nil && *c.wanted != capture.None {
			c.Unseen = unseenDrop // likewise
		}
	}
	return nil
}

// chooseCapture says what is captured, from what is asked for.
func (c *Config) chooseCapture() error {
	switch {
	case c.wanted == nil && c.Link != nil:
		c.Capture = capture.None // a pod can have a thousand links, and each relay is a process
	case c.wanted == nil && c.ControlSocket != "" && c.Unseen != unseenPass:
		c.Capture = capture.Timed
	case c.wanted == nil || *c.wanted == capture.None:
		c.Capture = capture.None
	case c.Unseen == unseenPass:
		return invalid(`capture: with %q nothing is left that "unseen": "pass" could let leave early; leave out one of them`, *c.wanted)
	case c.ControlSocket == "":
		return invalid("capture: there is no ktsnd to send what is captured (controlSocket is empty); leave it out")
	default:
		c.Capture = *c.wanted
	}
	return nil
}

// frontBytes is what stands in front of a captured frame.
func frontBytes(mode capture.Mode) int {
	if mode == capture.None {
		return 0
	}
	return capture.RecordBytes
}

// guard has the kernel put a record in front of what would leave the pod's interface early, or drop it. It runs inside the
// pod's network namespace.
func (r *request) guard() error {
	if !isGuarded(r.Unseen, r.Device) {
		return nil
	}
	if err := capture.AttachPod(r.Interface, r.Capture); err != nil {
		return coded(CodeUnguarded, fmt.Errorf(`%w; where that cannot be mended, the field "unseen": "pass" lets them leave early`, err))
	}
	return nil
}

// isGuarded tells whether the pod's interface has the program. At one of vhost-user the pod's kernel says nothing at all. One that
// Kata takes has none of our filters: Kata adds the queueing discipline ingress, which the kernel refuses beside clsact. Nothing
// of the pod but the machine sends there.
func isGuarded(unseen string, of device.Device) bool {
	return unseen != unseenPass && !of.Is(device.VhostUser) && !of.Is(device.Veth)
}

// isDiverted tells whether the node's end has the program. At one of vhost-user it has another one, which drops all frames of the pod's.
func isDiverted(mode capture.Mode, of device.Device) bool {
	return mode != capture.None && !of.Is(device.VhostUser)
}

// divert has the kernel hand captured frames to the relay at the node's end.
func (a *adding) divert(ctx context.Context, portName string) error {
	if !isDiverted(a.Capture, a.Device) {
		return nil
	}
	gated := uint64(capture.AllGated)
	if a.Capture == capture.All {
		gated, _ = a.daemon.gatedPriorities(ctx) // while ktsnd does not answer, the gates of all count as closed at times
	}
	if err := capture.AttachPort(portName, a.Capture, classBy(a.Device), gated); err != nil {
		return coded(CodeUnguarded, fmt.Errorf(`%w; where that cannot be mended, the field "capture": "None" drops them`, err))
	}
	return nil
}

// checkGuard puts back programs that somebody removed, and says so: datagrams may have left early, and frames reached the node.
func (r *record) checkGuard(node *overlay.Node) error {
	return errors.Join(r.checkReserved(node), r.checkNeighbors(node), r.checkPrograms(), r.keepToRelay())
}

func (r *record) checkNeighbors(node *overlay.Node) error {
	missing, err := node.KeepNeighbors(r.PortName(), r.neighborSources())
	if err != nil || !missing {
		return err
	}
	return fmt.Errorf("%s lacked the filter that drops ARP and neighbour discovery for addresses that are not the pod's; it is back", r.PortName())
}

// neighborSources are the addresses for which the pod may answer; nil: any. A link has two ends, and what one of them says concerns the
// other alone.
func (r *record) neighborSources() *control.Sources {
	if r.Link != nil {
		return nil
	}
	return r.Sources
}

func (r *record) checkReserved(node *overlay.Node) error {
	missing, err := node.KeepReserved(r.PortName())
	if err != nil || !missing {
		return err
	}
	return fmt.Errorf("%s lacked the filter that keeps what the pod sends to addresses of bridges from the node; it is back", r.PortName())
}

func (r *record) checkPrograms() error {
	if !r.hasPrograms() {
		return nil
	}
	now, err := r.guard(&knownGates{})
	if errors.Is(err, capture.ErrGone) {
		return nil // that has been said
	}
	if err != nil || !now.Back {
		return err
	}
	return fmt.Errorf("%s of the pod had lost a filter for datagrams that libktsn.so does not see; it is back", r.Interface)
}

// hasPrograms tells whether one of the interface's ends has a program.
func (r *record) hasPrograms() bool {
	return isGuarded(r.Unseen, r.Device) || (r.Unseen != unseenPass && isDiverted(r.Capture, r.Device))
}

// Guarded is an interface whose datagrams are looked at.
type Guarded struct {
	overlay.Attachment
	capture.Count
	// Port is the count at the node's end; all of it is zero where nothing is captured.
	Port capture.PortCount
	// Back tells that a program was missing, or at the node's end of another release, and has been attached.
	Back bool
}

// Guard makes sure that the interfaces of the node that shall have the programs have them, and reads what these did. Those
// of pods that are gone are left out. What fails of one interface is in the error, beside what was found of the rest.
func Guard(stateDir string) ([]Guarded, error) {
	made, err := records{stateDir}.withPorts()
	if err != nil {
		return nil, err
	}
	node, err := OpenNode(stateDir, 0)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	var all []Guarded
	var failed error
	var gates knownGates
	for _, r := range made {
		failed = errors.Join(failed, r.keepPortFilters(node), r.keepToRelay())
		if !r.hasPrograms() {
			continue
		}
		one, err := r.guard(&gates)
		switch {
		case err == nil:
			all = append(all, one)
		case !errors.Is(err, capture.ErrGone):
			failed = errors.Join(failed, fmt.Errorf("interface %s of container %s: %w", r.Interface, r.ContainerID, err))
		}
	}
	return all, failed
}

// keepPortFilters restores the filters at the node's end that concern other pods and the node; former releases had none.
func (r *record) keepPortFilters(node *overlay.Node) error {
	_, err := node.KeepReserved(r.PortName())
	_, errNeighbors := node.KeepNeighbors(r.PortName(), r.neighborSources())
	if err := errors.Join(err, errNeighbors); err != nil {
		return fmt.Errorf("interface %s of container %s: %w", r.Interface, r.ContainerID, err)
	}
	return nil
}

// keepToRelay restores the filter at the node's end of an interface of vhost-user, by which nothing but its relay's frames come in.
func (r *record) keepToRelay() error {
	if !r.Device.Is(device.VhostUser) {
		return nil
	}
	return vm.CheckPort(r.PortName())
}

// guard looks at one interface, at both of its ends.
func (r *record) guard(gates *knownGates) (Guarded, error) {
	one := Guarded{Attachment: r.Attachment}
	var err error
	if one.Count, err = capture.ReadIn(r.Netns, r.Interface); err != nil {
		return one, err
	}
	if err := r.guardPort(&one, gates); err != nil {
		return one, err
	}
	if !isGuarded(r.Unseen, r.Device) || (one.Attached && one.Mode == r.Capture) {
		return one, nil
	}
	one.Back = one.Back || !one.Former
	one.Count = capture.Count{Attached: true, Mode: r.Capture}
	return one, ns.WithNetNSPath(r.Netns, func(ns.NetNS) error { return capture.AttachPod(r.Interface, r.Capture) })
}

// isWanted tells whether the program at the node's end is as the attachment asks for, and of this release.
func (r *record) isWanted(port *capture.PortCount) bool {
	return port.Attached && !port.Former && port.Mode == r.Capture && port.ClassBy == classBy(r.Device)
}

// guardPort looks at the node's end. Where no relay answers, which would say it, the program learns from ktsnd which gates close.
func (r *record) guardPort(one *Guarded, gates *knownGates) (err error) {
	if !isDiverted(r.Capture, r.Device) {
		return nil
	}
	if one.Port, err = capture.ReadPort(r.PortName()); err != nil {
		return err
	}
	if r.isWanted(&one.Port) {
		if r.Capture != capture.All || one.Port.Answers() {
			return nil
		}
		return r.setGated(gates)
	}
	gated, known := gates.of(r.ControlSocket)
	if !known && one.Port.Attached && !one.Port.Former {
		gated = one.Port.GatedPriorities
	}
	one.Back, one.Port = true, capture.PortCount{Attached: true, Mode: r.Capture, ClassBy: classBy(r.Device), GatedPriorities: gated, HeartbeatAge: -1}
	return capture.AttachPort(r.PortName(), r.Capture, classBy(r.Device), gated)
}

// setGated leaves the program what it knows while ktsnd does not answer.
func (r *record) setGated(gates *knownGates) error {
	gated, known := gates.of(r.ControlSocket)
	if !known {
		return nil
	}
	now, err := capture.OpenState(r.PortName())
	if err != nil {
		return err
	}
	defer now.Close()
	return now.SetGated(gated)
}

// knownGates are what ktsnd said of its gates during one look at all interfaces, by control socket.
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
