// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// forwardSettings are by what a network namespace forwards.
var forwardSettings = map[string]string{
	ForwardIPv4: "/proc/sys/net/ipv4/ip_forward",
	ForwardIPv6: "/proc/sys/net/ipv6/conf/all/forwarding",
}

func (l *Link) forwards(family string) bool { return slices.Contains(l.Forward, family) }

// rememberForwarding notes what the pod has of the settings before the first link changes them.
func (p *plugging) rememberForwarding() error {
	for _, family := range p.Link.Forward {
		if _, known := p.ForwardBefore[family]; known {
			continue
		}
		value, err := p.forwardingBefore(family)
		if err != nil {
			return err
		}
		if p.ForwardBefore == nil {
			p.ForwardBefore = map[string]string{}
		}
		p.ForwardBefore[family] = value
	}
	return nil
}

// forwardingBefore is what another link of the pod has noted, else what is set.
func (p *plugging) forwardingBefore(family string) (before string, err error) {
	others, err := p.store.linksOf(p.ContainerID)
	if err != nil {
		return "", err
	}
	for _, other := range others {
		if value, known := other.ForwardBefore[family]; known {
			return value, nil
		}
	}
	err = p.netns.Do(func(ns.NetNS) error {
		text, err := os.ReadFile(forwardSettings[family])
		if err != nil {
			return fmt.Errorf("have the pod forward %s: %w", family, err)
		}
		before = strings.TrimSpace(string(text))
		return nil
	})
	return before, err
}

// setForwarding has the pod forward. It runs inside the pod's network namespace.
func (l *Link) setForwarding() error {
	for _, family := range l.Forward {
		if err := setForward(family, "1"); err != nil {
			return err
		}
	}
	return nil
}

// setForward leaves alone what is set: to write it again would reset other settings of the interfaces.
func setForward(family, value string) error {
	have, err := os.ReadFile(forwardSettings[family])
	if err == nil && strings.TrimSpace(string(have)) == value {
		return nil
	}
	if err := os.WriteFile(forwardSettings[family], []byte(value), 0); err != nil {
		return fmt.Errorf("set whether the pod forwards %s: %w", family, err)
	}
	return nil
}

// undoForwarding gives the pod back its settings, unless another of its links forwards.
func (r *Record) undoForwarding(store recordStore) error {
	if len(r.ForwardBefore) == 0 || isGone(r.Netns) {
		return nil
	}
	others, err := store.linksOf(r.ContainerID)
	if err != nil {
		return err
	}
	back := map[string]string{}
	for family, value := range r.ForwardBefore {
		if !slices.ContainsFunc(others, func(other *Record) bool {
			return other.Interface != r.Interface && other.Link != nil && other.Link.forwards(family)
		}) {
			back[family] = value
		}
	}
	if len(back) == 0 {
		return nil
	}
	err = ns.WithNetNSPath(r.Netns, func(ns.NetNS) error {
		var all error
		for family, value := range back {
			all = errors.Join(all, setForward(family, value))
		}
		return all
	})
	if errors.As(err, &ns.NSPathNotExistErr{}) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// linksOf reads the records of a container's links.
func (s recordStore) linksOf(containerID string) ([]*Record, error) {
	attachments, err := s.list(LinkNetwork)
	if err != nil {
		return nil, err
	}
	return s.readThose(attachments, func(one *overlay.Attachment) bool { return one.ContainerID == containerID }), nil
}
