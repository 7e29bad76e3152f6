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

// errTooOld is that the node's ktsnd cannot encrypt.
var errTooOld = errors.New("the node's ktsnd is of a release that cannot encrypt, and sends messages of encrypted networks in clear; upgrade ktsnd")

// tellKtsnd tells ktsnd by which keys to send, and then which networks to encrypt.
func (r *Reconciler) tellKtsnd(ctx context.Context, own netip.Addr, w *wants) error {
	select {
	case <-r.anew:
		r.modes = nil
		if r.ring != nil {
			maps.Copy(r.former, r.told)
			r.told = map[netip.Addr]*handed{}
			if err := r.ktsnd.Renew(); err != nil {
				return err
			}
		}
	default:
	}
	return r.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) error {
		if r.modes == nil {
			if err := r.learn(ctx, ktsnd, w); err != nil {
				return err
			}
		}
		if r.modes == nil { // nothing is encrypted, and nothing could be
			return nil
		}
		var errKeys error
		if r.ring != nil {
			errKeys = r.tellKeys(ctx, own, w, ktsnd)
		}
		return errors.Join(errKeys, r.tellNetworks(ctx, w, ktsnd))
	})
}

// learn asks which networks ktsnd encrypts.
func (r *Reconciler) learn(ctx context.Context, ktsnd Ktsnd, w *wants) error {
	all, err := ktsnd.NetworkEncryptions(ctx)
	var refusal *control.Error
	if errors.As(err, &refusal) && refusal.Field == "request" {
		for _, active := range w.active {
			if active {
				return errTooOld
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	r.modes = map[uint32]control.Encryption{}
	for _, one := range all {
		r.modes[one.VNI] = one.Encryption
	}
	return nil
}

// tellNetworks tells which networks are encrypted. What is preferred is either encrypted, for all nodes of the network, or not.
func (r *Reconciler) tellNetworks(ctx context.Context, w *wants, ktsnd Ktsnd) error {
	set := func(vni uint32, mode control.Encryption) error {
		if have, known := r.modes[vni]; have == mode || !known && mode == control.EncryptionNone {
			return nil
		}
		if err := ktsnd.SetNetworkEncryption(ctx, vni, mode); err != nil {
			return fmt.Errorf("tell ktsnd whether network %d is encrypted: %w", vni, err)
		}
		r.modes[vni] = mode
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

// tellKeys tells by which keys to send.
func (r *Reconciler) tellKeys(ctx context.Context, own netip.Addr, w *wants, ktsnd Ktsnd) error {
	// ktsnd takes no other key of a generation. It goes on with what it has until the others take all of its next life, since it may be
	// replaced in that at once.
	next := r.ktsnd.Generation() + 2*ktsndWidth - 1
	rekeyed := func(address netip.Addr, current bool) bool {
		have := r.told[address]
		return !current && have != nil && have.serial == r.ktsnd.Generation() && r.reaches(address, w.own[address], security.Ktsnd, next)
	}
	if r.mustRenew(r.ktsnd, r.told, w, rekeyed) {
		if err := r.ktsnd.Renew(); err != nil {
			return err
		}
	}
	var all error
	for _, have := range []map[netip.Addr]*handed{r.told, r.former} {
		for address := range have {
			if (w.peers[address] != nil || w.kept[address] || !w.complete) && !w.rejects(address, have[address]) {
				continue
			}
			if err := ktsnd.SetSecurityAssociations(ctx, address, nil); err != nil {
				all = errors.Join(all, fmt.Errorf("have ktsnd forget the keys for %s: %w", address, err))
				continue
			}
			delete(have, address)
		}
	}
	for address, peer := range w.peers {
		all = errors.Join(all, r.tellKeysTo(ctx, own, address, peer, w, ktsnd))
	}
	return all
}

func (r *Reconciler) tellKeysTo(ctx context.Context, own, address netip.Addr, peer *Trusted, w *wants, ktsnd Ktsnd) error {
	to := security.End{Address: address, Key: peer.Keys[0]}
	if have := r.told[address]; have != nil && have.serial == r.ktsnd.Generation() || !r.reached(address, w.own[address], r.ktsnd, security.Ktsnd) {
		return nil
	}
	taken, err := r.ktsnd.Take(own, to)
	if err != nil || len(taken) == 0 {
		return err
	}
	var associations []control.SecurityAssociation
	for i := range taken {
		associations = append(associations, control.SecurityAssociation{
			SPI: taken[i].SPI, Key: control.AssociationKey(taken[i].Key), Generation: taken[i].Generation,
		})
	}
	// Whatever becomes of it, ktsnd may have them now.
	r.told[address] = &handed{own: r.ring.Current().Public, to: to, serial: r.ktsnd.Generation()}
	if err := ktsnd.SetSecurityAssociations(ctx, address, associations); err != nil {
		delete(r.told, address)
		return errors.Join(fmt.Errorf("give ktsnd the keys for %s: %w", address, err), r.outrun(ctx, ktsnd, err))
	}
	delete(r.former, address)
	return nil
}

// outrun goes on with generations above those that ktsnd's of the node have used, where ktsnd refused a list for those: the node's keys were
// lost, and the generations with them.
func (r *Reconciler) outrun(ctx context.Context, ktsnd Ktsnd, refused error) error {
	var refusal *control.Error
	if !errors.As(refused, &refusal) || refusal.Field != "associations" {
		return nil
	}
	used, err := ktsnd.UsedGeneration(ctx)
	if err != nil {
		return fmt.Errorf("ask ktsnd which generation of keys it has used: %w", err)
	}
	return r.ktsnd.RenewAbove(used)
}
