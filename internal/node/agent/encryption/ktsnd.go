// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// updateKtsnd sets the keys by which ktsnd sends, and then which networks it encrypts.
func (ins *installer) updateKtsnd(ctx context.Context, ownAddress netip.Addr, w *wants) error {
	select {
	case <-ins.restarted:
		ins.modes = nil
		if ins.keys.ring != nil {
			maps.Copy(ins.former, ins.inKtsnd)
			ins.inKtsnd = map[netip.Addr]*handed{}
			if err := ins.keys.ktsnd.Renew(); err != nil {
				return err
			}
		}
	default:
	}
	return ins.do(ctx, func(ctx context.Context, ktsnd Ktsnd) error {
		if ins.modes == nil {
			if err := ins.readModes(ctx, ktsnd); err != nil {
				return err
			}
		}
		var errKeys error
		if ins.keys.ring != nil {
			errKeys = ins.setKeys(ctx, ownAddress, w, ktsnd)
		}
		return errors.Join(errKeys, ins.setModes(ctx, w, ktsnd))
	})
}

// readModes reads which networks ktsnd encrypts.
func (ins *installer) readModes(ctx context.Context, ktsnd Ktsnd) error {
	networks, err := ktsnd.NetworkEncryptions(ctx)
	if err != nil {
		return err
	}
	ins.modes = map[uint32]control.Encryption{}
	for _, n := range networks {
		ins.modes[n.VNI] = n.Encryption
	}
	return nil
}

// setModes sets which networks ktsnd encrypts. A network that prefers encryption is encrypted for all its nodes or for none.
func (ins *installer) setModes(ctx context.Context, w *wants, ktsnd Ktsnd) error {
	set := func(vni uint32, mode control.Encryption) error {
		if have, known := ins.modes[vni]; have == mode || !known && mode == control.EncryptionNone {
			return nil
		}
		if err := ktsnd.SetNetworkEncryption(ctx, vni, mode); err != nil {
			return fmt.Errorf("set whether ktsnd encrypts network %d: %w", vni, err)
		}
		ins.modes[vni] = mode
		return nil
	}
	var all error
	for vni := range w.known {
		mode := control.EncryptionNone
		if w.active[vni] {
			mode = control.EncryptionRequired
		}
		all = errors.Join(all, set(vni, mode))
	}
	return all
}

// setKeys sets the keys by which ktsnd sends.
func (ins *installer) setKeys(ctx context.Context, ownAddress netip.Addr, w *wants, ktsnd Ktsnd) error {
	// ktsnd accepts no second key of a generation. It keeps its keys until the peers accept all of its next life, because it may be replaced
	// at once in that.
	next := ins.keys.ktsnd.Generation() + 2*ktsndWidth - 1
	rekeyed := func(address netip.Addr, current bool) bool {
		have := ins.inKtsnd[address]
		return !current && have != nil && have.serial == ins.keys.ktsnd.Generation() && ins.reaches(address, w.statements[address], security.Ktsnd, next)
	}
	if ins.mustRenew(ins.keys.ktsnd, ins.inKtsnd, w, rekeyed) {
		if err := ins.keys.ktsnd.Renew(); err != nil {
			return err
		}
	}
	var all error
	for _, have := range []map[netip.Addr]*handed{ins.inKtsnd, ins.former} {
		for address := range have {
			if (w.peers[address] != nil || w.kept[address] || !w.complete) && !w.rejects(address, have[address]) {
				continue
			}
			if err := ktsnd.SetSecurityAssociations(ctx, address, nil); err != nil {
				all = errors.Join(all, fmt.Errorf("remove the keys for %s from ktsnd: %w", address, err))
				continue
			}
			delete(have, address)
		}
	}
	for address, peer := range w.peers {
		all = errors.Join(all, ins.setKeysTo(ctx, ownAddress, address, peer, w, ktsnd))
	}
	return all
}

func (ins *installer) setKeysTo(ctx context.Context, ownAddress, address netip.Addr, peer *Trusted, w *wants, ktsnd Ktsnd) error {
	to := security.End{Address: address, Key: peer.Keys[0]}
	if have := ins.inKtsnd[address]; have != nil && have.serial == ins.keys.ktsnd.Generation() || !ins.reached(address, w.statements[address], ins.keys.ktsnd, security.Ktsnd) {
		return nil
	}
	taken, err := ins.keys.ktsnd.Take(ownAddress, to)
	if err != nil || len(taken) == 0 {
		return err
	}
	var associations []control.SecurityAssociation
	for i := range taken {
		associations = append(associations, control.SecurityAssociation{
			SPI: taken[i].SPI, Key: control.AssociationKey(taken[i].Key), Generation: taken[i].Generation,
		})
	}
	// ktsnd may have them even if the request fails.
	ins.inKtsnd[address] = &handed{local: ins.keys.ring.Current().Public, to: to, serial: ins.keys.ktsnd.Generation()}
	if err := ktsnd.SetSecurityAssociations(ctx, address, associations); err != nil {
		delete(ins.inKtsnd, address)
		return errors.Join(fmt.Errorf("set the keys for %s in ktsnd: %w", address, err), ins.outrun(ctx, ktsnd, err))
	}
	delete(ins.former, address)
	return nil
}

// outrun continues with generations above those that the node's ktsnds have used, if ktsnd refused a list because of those: the node's keys
// were lost, and the generations with them.
func (ins *installer) outrun(ctx context.Context, ktsnd Ktsnd, refused error) error {
	var refusal *control.Error
	if !errors.As(refused, &refusal) || refusal.Field != "associations" {
		return nil
	}
	used, err := ktsnd.UsedGeneration(ctx)
	if err != nil {
		return fmt.Errorf("read the generation of keys that ktsnd has used: %w", err)
	}
	return ins.keys.ktsnd.RenewAbove(used)
}
