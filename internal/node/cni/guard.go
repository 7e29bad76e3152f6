// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/unseen"
)

// Values of the field unseen: what becomes of datagrams with a transmit time that libktsn.so does not see.
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

// readUnseenOfPod reads what is asked for one pod, which goes before what the network has.
func (c *Config) readUnseenOfPod(text []byte) error {
	var asked struct {
		Args struct {
			CNI struct {
				Unseen json.RawMessage `json:"unseen"`
			} `json:"cni"`
		} `json:"args"`
	}
	if json.Unmarshal(text, &asked) != nil || asked.Args.CNI.Unseen == nil {
		return nil // what is wrong with args has been said
	}
	if err := c.readUnseen(asked.Args.CNI.Unseen); err != nil {
		return invalid("args.cni.unseen: %v", err)
	}
	return nil
}

// guard has the kernel drop what would leave the pod's interface early. It runs inside the pod's network namespace.
func (r *request) guard() error {
	if r.Unseen == unseenPass {
		return nil
	}
	if err := unseen.Attach(r.Interface); err != nil {
		return coded(CodeUnguarded, fmt.Errorf(`%w; where that cannot be mended, the field "unseen": "pass" lets them leave early`, err))
	}
	return nil
}

// checkGuard puts back a filter that somebody removed, and says so: datagrams may have left early. It runs inside the pod's
// network namespace.
func (r *request) checkGuard() error {
	if r.Unseen == unseenPass {
		return nil
	}
	there, err := unseen.Attached(r.Interface)
	if err != nil || there {
		return err
	}
	if err := unseen.Attach(r.Interface); err != nil {
		return err
	}
	return fmt.Errorf("%s in the pod had lost the filter against datagrams that libktsn.so does not see; it is back", r.Interface)
}

// Guarded is an interface whose datagrams are looked at.
type Guarded struct {
	overlay.Attachment
	unseen.Count
	// Back tells that the filter was missing and has been put back.
	Back bool
}

// Guard makes sure that the interfaces of the node that shall have the filter have it, and reads what they did not let
// out. Those of pods that are gone are left out. What fails of one interface is in the error, beside what was found of the
// rest.
func Guard(stateDir string) ([]Guarded, error) {
	made, err := records{stateDir}.all()
	if err != nil {
		return nil, err
	}
	var all []Guarded
	var failed error
	for _, r := range made {
		if r.Unseen == unseenPass {
			continue
		}
		one, err := r.guard()
		switch {
		case err == nil:
			all = append(all, one)
		case !errors.Is(err, unseen.ErrGone):
			failed = errors.Join(failed, fmt.Errorf("interface %s of container %s: %w", r.Interface, r.ContainerID, err))
		}
	}
	return all, failed
}

// guard looks at one interface.
func (r *record) guard() (Guarded, error) {
	one := Guarded{Attachment: r.Attachment}
	count, err := unseen.ReadIn(r.Netns, r.Interface)
	if err != nil || count.Guarded {
		one.Count = count
		return one, err
	}
	one.Back, one.Guarded = true, true
	return one, ns.WithNetNSPath(r.Netns, func(ns.NetNS) error { return unseen.Attach(r.Interface) })
}
