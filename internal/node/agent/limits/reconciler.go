// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/repeat"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Ktsnd is a connection to the node's ktsnd.
type Ktsnd interface {
	NetworkLimits(ctx context.Context) ([]control.NetworkLimits, error)
	NetworkLimitsSet(ctx context.Context, limits control.NetworkLimits) error
}

// Reconciler sets the limits of all networks in ktsnd.
type Reconciler struct {
	// State returns the node's objects.
	State func() network.Cluster
	// Do calls ask with a connection to ktsnd.
	Do func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	// Report gets the result of each reconciliation.
	Report func(error)
	Log    *slog.Logger
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	return repeat.Look(ctx, r.reconcile, r.Report)
}

func (r *Reconciler) reconcile(ctx context.Context) error {
	state := r.State()
	if state.Unknown != nil {
		return state.Unknown
	}
	var networks []*v1alpha1.TSNNetwork
	var unknown error
	for i := range state.Networks {
		if object := state.Networks[i].Object; object != nil {
			networks = append(networks, object)
		} else {
			unknown = errors.Join(unknown, fmt.Errorf("the limits of network %s are not known yet", state.Networks[i].Part.Name))
		}
	}
	wanted, faults := limitsByVNI(networks)
	return errors.Join(unknown, faults, r.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) error {
		return r.apply(ctx, wanted, unknown == nil, ktsnd)
	}))
}

// limitsByVNI returns the limits by VNI. If networks share a VNI, the oldest counts, as everywhere.
func limitsByVNI(networks []*v1alpha1.TSNNetwork) (limits map[uint32]control.GivenLimits, faults error) {
	limits = map[uint32]control.GivenLimits{}
	seen := map[int32]bool{}
	networks = slices.SortedFunc(slices.Values(networks), func(a, b *v1alpha1.TSNNetwork) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, network := range networks {
		if seen[network.Spec.VNI] {
			continue
		}
		seen[network.Spec.VNI] = true
		podLimits, err := tsnnetwork.LimitsOf(network)
		if err != nil {
			faults = errors.Join(faults, fmt.Errorf("network %s: %w", network.Name, err))
		} else if podLimits.Any() {
			limits[uint32(network.Spec.VNI)] = podLimits
		}
	}
	return limits, faults
}

// apply sets the limits that differ in ktsnd. If all, it removes the limits of other networks.
func (r *Reconciler) apply(ctx context.Context, desired map[uint32]control.GivenLimits, all bool, ktsnd Ktsnd) error {
	networkLimits, err := ktsnd.NetworkLimits(ctx)
	if err != nil {
		return fmt.Errorf("get the limits of networks: %w", err)
	}
	current := map[uint32]control.GivenLimits{}
	// Remove first: that makes room for new limits.
	for _, network := range networkLimits {
		current[network.VNI] = network.Limits
		if _, keep := desired[network.VNI]; !keep && all {
			r.Log.Info("removing limits", "vni", network.VNI)
			err = errors.Join(err, ktsnd.NetworkLimitsSet(ctx, control.NetworkLimits{VNI: network.VNI}))
		}
	}
	for vni, limits := range desired {
		if limits.Equal(current[vni]) {
			continue
		}
		r.Log.Info("setting limits", "vni", vni, "limits", limits.String())
		if set := ktsnd.NetworkLimitsSet(ctx, control.NetworkLimits{VNI: vni, Limits: limits}); set != nil {
			err = errors.Join(err, fmt.Errorf("set the limits of network %d: %w", vni, set))
		}
	}
	return err
}
