// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"fmt"
	"time"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// LimitsOf parses the limits of a network's pods.
func LimitsOf(network *v1alpha1.TSNNetwork) (control.GivenLimits, error) {
	spec := network.Spec.Limits
	if spec == nil {
		return control.GivenLimits{}, nil
	}
	given := control.GivenLimits{
		Processes: number(spec.Processes, 1), Sockets: number(spec.Sockets, 1), RingMemoryBytes: number(spec.Memory, 1<<20),
		Pending: number(spec.Pending, 1), MessageRate: number(spec.Rate, 1), DoorbellRate: number(spec.Doorbells, 1),
	}
	if spec.Horizon == "" {
		return given, nil
	}
	horizon, err := time.ParseDuration(spec.Horizon)
	if err != nil {
		return control.GivenLimits{}, fmt.Errorf("spec.limits.horizon: %w", err)
	}
	ns := horizon.Nanoseconds()
	given.HorizonNs = &ns
	return given, nil
}

// number multiplies a field by its unit, nil if it is not set. The API server rejects negative values.
func number(field *int32, unit uint64) *uint64 {
	if field == nil {
		return nil
	}
	value := uint64(max(0, *field)) * unit
	return &value
}
