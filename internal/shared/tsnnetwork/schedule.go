// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

// Gates are the schedule and the traffic classes for each node's ktsnd.
type Gates struct {
	Table   control.GateParameterTable `json:"table"`
	Classes control.TrafficClassMap    `json:"classes"`
	Points  control.PriorityCodePoints `json:"points"`
}

// DefaultGates are the initial gates of ktsnd: always open.
func DefaultGates() *Gates {
	return &Gates{
		Table:   control.GateParameterTable{AdminGateStates: 255},
		Classes: control.TrafficClassMap{1, 0, 2, 3, 4, 5, 6, 7, 1, 0, 2, 3, 4, 5, 6, 7},
		Points:  control.PriorityCodePoints{1, 0, 2, 3, 4, 5, 6, 7},
	}
}

// HasGates reports whether a network has a schedule or traffic classes, which a node can have only once.
func HasGates(network *v1alpha1.TSNNetwork) bool {
	return network.Spec.Schedule != nil || network.Spec.TrafficClasses != nil
}

// GatesOf parses a network's schedule and classes. Errors contain the full path of the field.
func GatesOf(network *v1alpha1.TSNNetwork) (*Gates, error) {
	gates := DefaultGates()
	if classes := network.Spec.TrafficClasses; classes != nil {
		copyNumbers(gates.Classes[:], classes.PriorityMap)
		copyNumbers(gates.Points[:], classes.PriorityCodePoints)
	}
	if network.Spec.Schedule == nil {
		return gates, nil
	}
	text, err := json.Marshal(network.Spec.Schedule)
	if err != nil {
		return nil, fmt.Errorf("spec.schedule: %w", err)
	}
	document, err := schedule.Parse("spec.schedule", text)
	if err == nil && network.Spec.LinkSpeed != "" {
		var speedBps int64
		if speedBps, err = schedule.ParseLinkSpeed(network.Spec.LinkSpeed); err != nil {
			return nil, fmt.Errorf("spec.linkSpeed: %w", err)
		}
		err = document.Check(speedBps)
	}
	var fault *schedule.Error
	if errors.As(err, &fault) {
		// The spec has no line numbers, and spec.schedule is the table.
		return nil, fmt.Errorf("spec.schedule%s: %s", strings.TrimPrefix(fault.Field, "gate-parameter-table"), fault.Message)
	}
	if err != nil {
		return nil, err
	}
	gates.Table = *document.Table
	return gates, nil
}

func copyNumbers(to []uint8, from []int32) {
	for i := range min(len(to), len(from)) {
		to[i] = uint8(from[i])
	}
}

// Hash identifies the gates.
func (g *Gates) Hash() string {
	text, err := json.Marshal(g)
	if err != nil {
		panic(err) // cannot fail for numbers and lists of numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// WithBaseTime returns a copy of the gates with a base time.
func (g *Gates) WithBaseTime(base v1alpha1.PTPTime) *Gates {
	moved := *g
	moved.Table.AdminBaseTime = control.PTPTime{Seconds: uint64(base.Seconds), Nanoseconds: uint32(base.Nanoseconds)}
	return &moved
}

const nsPerSecond = 1_000_000_000

// BaseTime returns when all nodes start the schedule: at the network's base time if that is at least the lead ahead, else a whole number of
// cycles after it. Times are TAI, in nanoseconds.
//
//	base        base + cycle     ...     |now        |now + lead
//	|-----------|-----------|-----------|-----------|----------X first cycle start after the lead
func (g *Gates) BaseTime(nowTAINs, leadNs int64) v1alpha1.PTPTime {
	base := g.Table.AdminBaseTime
	baseNs := int64(base.Seconds)*nsPerSecond + int64(base.Nanoseconds)
	earliestNs := nowTAINs + leadNs
	if cycleNs := g.Table.AdminCycleTime.Nanoseconds(); g.Table.GateEnabled && cycleNs > 0 && baseNs < earliestNs {
		baseNs += (earliestNs - baseNs + cycleNs - 1) / cycleNs * cycleNs
	}
	return v1alpha1.PTPTime{Seconds: baseNs / nsPerSecond, Nanoseconds: int32(baseNs % nsPerSecond)}
}
