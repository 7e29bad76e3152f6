// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// checkEncryption fails where the network requires encryption and the node cannot encrypt.
func (s *Spec) checkEncryption() error {
	if s.Unencryptable == "" {
		return nil
	}
	return coded(CodeEncryption, fmt.Errorf("the network requires encryption, and the node cannot encrypt: %s", s.Unencryptable))
}

// encrypt tells ktsnd that the network is encrypted, before ktsnd knows the pod, so that nothing is sent in clear.
func (a *adding) encrypt(ctx context.Context) error {
	if !a.Overlay.Encrypted {
		return nil
	}
	return requireEncryption(ctx, a.daemon.Client, a.Overlay.VNI)
}

func requireEncryption(ctx context.Context, client *control.Client, vni uint32) error {
	err := client.SetNetworkEncryption(ctx, vni, control.EncryptionRequired)
	if refusal := (*control.Error)(nil); errors.As(err, &refusal) && refusal.Field == "request" {
		return coded(CodeEncryption, fmt.Errorf("network %d is encrypted, and the node's ktsnd is of a release that cannot encrypt; upgrade ktsnd", vni))
	}
	if err != nil {
		return fmt.Errorf("tell ktsnd that network %d is encrypted: %w", vni, err)
	}
	return nil
}

// Encrypt implements [overlay.TimedLinks].
func (d *daemon) Encrypt(ctx context.Context, vni uint32, required bool) error {
	if required {
		return requireEncryption(ctx, d.Client, vni)
	}
	if err := d.SetNetworkEncryption(ctx, vni, control.EncryptionNone); err != nil {
		return fmt.Errorf("tell ktsnd that link %d is gone: %w", vni, err)
	}
	return nil
}

// restoreEncryption tells a restarted ktsnd which networks are encrypted, as their tunnels are. It must run before
// peers and pods are restored. ktsnd would send the refused networks in clear and must get neither their peers nor
// their pods. A network is also refused when its state is unknown, because a process was killed before it had made the
// tunnel. A tunnel with another name belongs to a user, whose networks are not encrypted.
func restoreEncryption(ctx context.Context, node *overlay.Node, client *control.Client, records []*Record) (refused map[uint32]bool, all error) {
	egresses, err := node.Egresses()
	if err != nil {
		return nil, fmt.Errorf("look which networks are encrypted, without which ktsnd is told of none: %w", err)
	}
	finished := map[string]bool{}
	refused = map[uint32]bool{}
	for _, egress := range egresses {
		finished[egress.Name] = true
		if !egress.Encrypted {
			continue
		}
		if err := requireEncryption(ctx, client, egress.VNI); err != nil {
			refused[egress.VNI], all = true, errors.Join(all, err)
		}
	}
	for _, r := range records {
		if r.Tunnel == overlay.TunnelName(r.VNI) && !finished[r.Tunnel] && !refused[r.VNI] && !isGone(r.Netns) {
			refused[r.VNI] = true
			all = errors.Join(all, fmt.Errorf("network %d: %s is not there or not finished, so that nobody knows whether the network is encrypted; "+
				"ktsnd is told of its pods when it is", r.VNI, r.Tunnel))
		}
	}
	return refused, all
}

// LowerMTU lowers the MTU of the interfaces of a network's running pods to that of its tunnel.
func LowerMTU(stateDir string, vni uint32, mtu int) error {
	records, err := recordStore{stateDir}.withPorts()
	for _, r := range records {
		if r.VNI != vni {
			continue
		}
		err = errors.Join(err, ns.WithNetNSPath(r.Netns, func(ns.NetNS) error { return lowerMTU(r.Interface, mtu) }))
	}
	if err != nil {
		return fmt.Errorf("set the MTU of the pods of network %d to %d: %w", vni, mtu, err)
	}
	return nil
}

func lowerMTU(name string, mtu int) error {
	link, err := netlink.LinkByName(name)
	if err != nil || link.Attrs().MTU <= mtu {
		return err
	}
	return netlink.LinkSetMTU(link, mtu)
}
