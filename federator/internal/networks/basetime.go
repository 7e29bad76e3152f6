// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"time"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// scheduleLead is how far ahead the base time of a new schedule lies. Clusters receive it within seconds.
const scheduleLead = 15 * time.Second

// baseTime returns the common base time of a network's schedule in all clusters. It stays as long as the schedule does.
// It is nil if there is no schedule, if the network sets the base time, or if the schedule is invalid, which each
// cluster reports.
func baseTime(network *tsn.TSNNetwork, override *policyv1alpha1.ClusterOverridePolicy, nowTAINs int64) (base *tsn.PTPTime, schedule string) {
	if network.Spec.Schedule == nil || network.Spec.Schedule.AdminBaseTime != nil {
		return nil, ""
	}
	gates, err := tsnnetwork.GatesOf(network)
	if err != nil {
		return nil, ""
	}
	schedule = gates.Hash()
	if chosen := chosenBase(override); chosen != nil && override.Annotations[scheduleAnnotation] == schedule {
		return chosen, schedule
	}
	at := gates.BaseTime(nowTAINs, scheduleLead.Nanoseconds())
	return &at, schedule
}

// chosenBase returns the base time in the override policy, nil if there is none.
func chosenBase(override *policyv1alpha1.ClusterOverridePolicy) *tsn.PTPTime {
	for i := range override.Spec.OverrideRules {
		var base tsn.PTPTime
		if spread.Read(&override.Spec.OverrideRules[i], baseTimePath, &base) {
			return &base
		}
	}
	return nil
}
