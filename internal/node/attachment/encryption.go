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

// encrypt requires encryption of the network from ktsnd before ktsnd knows the pod, so that nothing is sent in clear.
func (a *adding) encrypt(ctx context.Context) error {
	if !a.Overlay.Encrypted {
		return nil
	}
	return requireEncryption(ctx, a.daemon.Client, a.Overlay.VNI)
}

func requireEncryption(ctx context.Context, client *control.Client, vni uint32) error {
	if err := client.SetNetworkEncryption(ctx, vni, control.EncryptionRequired); err != nil {
		return fmt.Errorf("require encryption of network %d from ktsnd: %w", vni, err)
	}
	return nil
}

// Encrypt implements [overlay.TimedLinks].
func (d *daemon) Encrypt(ctx context.Context, vni uint32, required bool) error {
	if required {
		return requireEncryption(ctx, d.Client, vni)
	}
	if err := d.SetNetworkEncryption(ctx, vni, control.EncryptionNone); err != nil {
		return fmt.Errorf("remove the encryption of link %d from ktsnd: %w", vni, err)
	}
	return nil
}

// restoreEncryption sets the encrypted networks, whose tunnels are encrypted, in a restarted ktsnd. It must run before
// peers and pods are restored. ktsnd would send the refused networks in clear and must get neither their peers nor
// their pods. A network is also refused when its state is unknown, because a process was killed before it had made the
// tunnel. A tunnel with another name belongs to a user, whose networks are not encrypted.
func restoreEncryption(ctx context.Context, node *overlay.Node, client *control.Client, records []*Record) (refused map[uint32]error, err error) {
	egresses, err := node.Egresses()
	if err != nil {
		return nil, fmt.Errorf("list the encrypted networks, without which no network is restored: %w", err)
	}
	finished := map[string]bool{}
	refused = map[uint32]error{}
	for _, egress := range egresses {
		finished[egress.Name] = true
		if !egress.Encrypted {
			continue
		}
		if err := requireEncryption(ctx, client, egress.VNI); err != nil {
			refused[egress.VNI] = err
		}
	}
	for _, r := range records {
		if r.Tunnel == overlay.TunnelName(r.VNI) && !finished[r.Tunnel] && refused[r.VNI] == nil && !isGone(r.Netns) {
			refused[r.VNI] = fmt.Errorf("network %d: %s is missing or unfinished, so it is unknown whether the network is encrypted; "+
				"its pods are restored afterwards", r.VNI, r.Tunnel)
		}
	}
	return refused, nil
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
