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

// Reconciler has ktsnd know the limits of all networks.
type Reconciler struct {
	// State is what the API server has said.
	State func() network.Cluster
	// Do has ask talk to ktsnd.
	Do func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	// Report is told how it went.
	Report func(error)
	Log    *slog.Logger
}

// Reconcile looks at everything, whatever it was called for.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	return repeat.Look(ctx, r.all, r.Report)
}

func (r *Reconciler) all(ctx context.Context) error {
	state := r.State()
	if state.Unknown != nil {
		return state.Unknown
	}
	var networks []*v1alpha1.TSNNetwork
	var unknown error
	for i := range state.Networks {
		if about := state.Networks[i].Object; about != nil {
			networks = append(networks, about)
		} else {
			unknown = errors.Join(unknown, fmt.Errorf("the limits of network %s are not known yet", state.Networks[i].Part.Name))
		}
	}
	wanted, faults := wanted(networks)
	return errors.Join(unknown, faults, r.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) error {
		return r.apply(ctx, wanted, unknown == nil, ktsnd)
	}))
}

// wanted are the limits by VNI; of networks that have one in common, the oldest counts, as it does everywhere.
func wanted(networks []*v1alpha1.TSNNetwork) (limits map[uint32]control.GivenLimits, faults error) {
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
		given, err := tsnnetwork.LimitsOf(network)
		if err != nil {
			faults = errors.Join(faults, fmt.Errorf("network %s: %w", network.Name, err))
		} else if given.Any() {
			limits[uint32(network.Spec.VNI)] = given
		}
	}
	return limits, faults
}

// apply tells ktsnd of the networks in which it differs. Limits of others go where these are all.
func (r *Reconciler) apply(ctx context.Context, wanted map[uint32]control.GivenLimits, all bool, ktsnd Ktsnd) error {
	networkLimits, err := ktsnd.NetworkLimits(ctx)
	if err != nil {
		return fmt.Errorf("ask for the limits of networks: %w", err)
	}
	have := map[uint32]control.GivenLimits{}
	// Those that go make room for those that come.
	for _, network := range networkLimits {
		have[network.VNI] = network.Limits
		if _, keep := wanted[network.VNI]; !keep && all {
			r.Log.Info("no limits any more", "vni", network.VNI)
			err = errors.Join(err, ktsnd.NetworkLimitsSet(ctx, control.NetworkLimits{VNI: network.VNI}))
		}
	}
	for vni, limits := range wanted {
		if limits.Equal(have[vni]) {
			continue
		}
		r.Log.Info("limits", "vni", vni, "limits", limits.String())
		if set := ktsnd.NetworkLimitsSet(ctx, control.NetworkLimits{VNI: vni, Limits: limits}); set != nil {
			err = errors.Join(err, fmt.Errorf("set the limits of network %d: %w", vni, set))
		}
	}
	return err
}
