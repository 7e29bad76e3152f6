// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClockRequirement is a network's requirement for the clocks of its nodes.
type ClockRequirement struct {
	// maxError is the largest acceptable clock error: no new pod of the network starts on a node whose clock error may be larger.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,8}(ns|us|ms|s)$')",message="maxError must be a whole number with ns, us, ms or s, such as 10us"
	// +kubebuilder:default="10us"
	// +optional
	MaxError string `json:"maxError,omitempty"`
	// holdover is how long a clock that is no longer synchronised stays acceptable at most, while the growing bound of its error is not
	// larger than maxError. 0s: not at all.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,6}(ms|s|m|h)$')",message="holdover must be a whole number with ms, s, m or h, such as 1m, or 0s"
	// +kubebuilder:default="1m"
	// +optional
	Holdover string `json:"holdover,omitempty"`
	// onLoss is what happens to messages with a transmit time while the node's clock is not good enough. Continue: they are sent by that
	// clock and counted. Hold: they wait until the clock is good again; after their horizon they are dropped and reported. Refuse:
	// waiting messages are sent, and further calls fail with ENETDOWN.
	// +kubebuilder:validation:Enum=Continue;Hold;Refuse
	// +kubebuilder:default=Continue
	// +optional
	OnLoss string `json:"onLoss,omitempty"`
}

// NodeClock is the state of a node's clock.
type NodeClock struct {
	// state of the clock, judged by the strictest spec.clock of the node's networks, or by an error of 10 us if there is none.
	// +kubebuilder:validation:Enum=Synchronized;Holdover;Unsynchronized;Unknown
	// +required
	State string `json:"state"`
	// since is the time of the last change of state.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
	// source is what synchronises the clock, or did so last: PTP, NTP or None.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Source string `json:"source,omitempty"`
	// grandmaster is the clock identity of the PTP grandmaster, or the reference of NTP.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Grandmaster string `json:"grandmaster,omitempty"`
	// errorBoundNanoseconds is the bound of the clock's error when the status was written, rounded up to 1, 2 or 5 times a power of ten so
	// that it rarely changes. It is absent if the error is unknown.
	// +optional
	ErrorBoundNanoseconds *int64 `json:"errorBoundNanoseconds,omitempty"`
	// taiOffset is CLOCK_TAI - CLOCK_REALTIME of the node in seconds, 0 if it was never set. Transmit times are times of CLOCK_TAI, so
	// the nodes of a network must have the same offset.
	// +optional
	TAIOffset *int32 `json:"taiOffset,omitempty"`
	// lostSince is when synchronisation ended. It is absent while the clock is synchronised, and if it never was.
	// +optional
	LostSince *metav1.Time `json:"lostSince,omitempty"`
	// steps is the number of clock steps that the agent has seen.
	// +optional
	Steps int64 `json:"steps,omitempty"`
	// message describes a problem and what to do about it.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`
	// history has the last changes of state, the newest first.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	History []ClockTransition `json:"history,omitempty"`
}

// ClockTransition is a change of the state of a node's clock.
type ClockTransition struct {
	// time of the change.
	// +required
	Time metav1.MicroTime `json:"time"`
	// state after the change.
	// +kubebuilder:validation:Enum=Synchronized;Holdover;Unsynchronized;Unknown
	// +required
	State string `json:"state"`
	// reason of the change, such as PortLost.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`
	// grandmaster after the change.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Grandmaster string `json:"grandmaster,omitempty"`
}
