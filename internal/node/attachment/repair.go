// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/receive"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Repair repairs the devices of the networks with attached pods, and these pods' ports, after other programs changed them. networks
// has networks as they should be, by name; others stay as their attachments were made. Links are repaired when they are plugged again,
// except for the address of their tunnels.
// It returns what was repaired, and by VNI why a network could not be: nil if not all networks were looked at. client is nil, or does not
// answer, while there is no ktsnd: repairs that need it are then left out.
func Repair(ctx context.Context, stateDir string, node *overlay.Node, client *control.Client, networks map[string]overlay.Network) (repaired []string, faults map[uint32]error, err error) {
	records, err := recordStore{stateDir}.those(func(attachment *overlay.Attachment) bool { return attachment.Network != LinkNetwork })
	if err != nil {
		return nil, nil, err
	}
	var ktsnd *daemon // nil if it does not answer
	required, status, errAsk := askKtsnd(ctx, client)
	if errAsk == nil {
		ktsnd = &daemon{client}
		repaired, err = followAddress(ctx, stateDir, node, status)
	}
	moved, errMoved := receive.KeepReached(receive.DefaultDir)
	for _, uplink := range moved {
		repaired = append(repaired, fmt.Sprintf("put the program for receive rings at %s before tcx programs of others", uplink))
	}
	err = errors.Join(err, errMoved)
	all := networksOf(records, networks)
	faults = map[uint32]error{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		ports := all[name]
		// Without the agent nobody encrypts; with it, the record may be older than the network's encryption. Without ktsnd only the
		// network's settings tell that it asks for none.
		inClear := !hasKeys(stateDir) || ports.known && (ktsnd != nil || ports.network.Overhead == 0)
		done, errRepair := node.Repair(ctx, &ports.network, ports.ports, inClear && !required[ports.network.VNI], ktsnd.timed())
		repaired = append(repaired, done...)
		var kind *overlay.Error
		switch {
		case errRepair == nil:
		case ctx.Err() != nil || cutOff(errRepair) || errors.As(errRepair, &kind) && kind.Kind == overlay.Busy:
			return repaired, nil, errors.Join(err, errRepair, Joined(faults)) // which says nothing of the network
		default:
			faults[ports.network.VNI] = fmt.Errorf("repair network %s: %w", name, errRepair)
		}
	}
	return repaired, faults, err
}

// followAddress gives tunnels the address that ktsnd sends from, and the program for receive rings, which goes by it, these tunnels.
func followAddress(ctx context.Context, stateDir string, node *overlay.Node, status *control.Status) (repaired []string, err error) {
	repaired, err = node.FollowAddress(ctx, status)
	if err == nil && len(repaired) > 0 {
		_, _ = RestoreReceive(ctx, stateDir, node) // as in Restore
	}
	return repaired, err
}

// answerTimeout is how long to wait for a ktsnd that may hang.
const answerTimeout = 3 * time.Second

// askKtsnd returns the networks that ktsnd encrypts, and its status.
func askKtsnd(ctx context.Context, client *control.Client) (required map[uint32]bool, status *control.Status, err error) {
	if client == nil {
		return nil, nil, errKtsndSilent
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	modes, err := client.NetworkEncryptions(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("ask ktsnd for the encryption of networks: %w", err)
	}
	if status, err = client.Status(ctx); err != nil {
		return nil, nil, fmt.Errorf("ask ktsnd for its status: %w", err)
	}
	required = map[uint32]bool{}
	for _, network := range modes {
		required[network.VNI] = network.Encryption != control.EncryptionNone
	}
	return required, status, nil
}

// hasKeys reports whether the node's agent takes part in encryption.
func hasKeys(stateDir string) bool {
	_, err := os.Stat(filepath.Join(stateDir, "keys"))
	return err == nil
}

// networkPorts are a network and the ports of its attachments.
type networkPorts struct {
	network overlay.Network
	// known: the network is as it should be, and not only as it was.
	known bool
	ports []overlay.Port
}

// networksOf returns the networks of records with ports in existing network namespaces.
func networksOf(records []*Record, known map[string]overlay.Network) map[string]*networkPorts {
	all := map[string]*networkPorts{}
	for _, r := range records {
		if !r.hasPort() || isGone(r.Netns) || r.Overlay.Port == 0 {
			continue
		}
		ports := all[r.Network]
		if ports == nil {
			ports = &networkPorts{network: r.Overlay}
			if network, configured := known[r.Network]; configured {
				ports.network, ports.known = network, true
			}
			ports.network.Name = r.Network
			all[r.Network] = ports
		}
		if r.Sources == nil || len(r.Sources.HardwareAddresses) == 0 {
			continue // it is being attached
		}
		if address, err := net.ParseMAC(r.Sources.HardwareAddresses[0]); err == nil {
			ports.ports = append(ports.ports, overlay.Port{Attachment: r.Attachment, HardwareAddress: address})
		}
	}
	return all
}
