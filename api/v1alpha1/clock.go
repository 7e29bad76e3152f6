// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClockRequirement is what a network asks of the clocks of its nodes.
type ClockRequirement struct {
	// maxError is the largest error with which times are believed: no new pod of the network starts on a node where the bound of
	// the clock's error is larger.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,8}(ns|us|ms|s)$')",message="maxError must be a whole number with ns, us, ms or s, such as 10us"
	// +kubebuilder:default="10us"
	// +optional
	MaxError string `json:"maxError,omitempty"`
	// holdover is for how long a clock that nobody keeps any more is believed at most, while the bound of its error, which grows, is
	// not larger than maxError. 0s: not at all.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,6}(ms|s|m|h)$')",message="holdover must be a whole number with ms, s, m or h, such as 1m, or 0s"
	// +kubebuilder:default="1m"
	// +optional
	Holdover string `json:"holdover,omitempty"`
	// onLoss says what becomes of messages with a transmit time of the node's pods while its clock is not good enough. Continue: they
	// leave by that clock, and are counted. Hold: they wait until the clock is good again, or until their horizon is over and they are
	// dropped and reported. Refuse: those that wait leave, and further calls fail with ENETDOWN.
	// +kubebuilder:validation:Enum=Continue;Hold;Refuse
	// +kubebuilder:default=Continue
	// +optional
	OnLoss string `json:"onLoss,omitempty"`
}

// NodeClock is what holds of a node's clock.
type NodeClock struct {
	// state by the strictest spec.clock of the node's networks, else by an error of 10 us.
	// +kubebuilder:validation:Enum=Synchronized;Holdover;Unsynchronized;Unknown
	// +required
	State string `json:"state"`
	// since when it has been in that state.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
	// source is who keeps the clock, or kept it last: PTP, NTP or None.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Source string `json:"source,omitempty"`
	// grandmaster is the clock identity of the PTP grandmaster, or the reference of NTP.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Grandmaster string `json:"grandmaster,omitempty"`
	// errorBoundNanoseconds is what the error of the clock was at most when the state was written, rounded up to 1, 2 or 5 times a
	// power of ten so that it rarely changes. Without it the error is not known.
	// +optional
	ErrorBoundNanoseconds *int64 `json:"errorBoundNanoseconds,omitempty"`
	// taiOffset is CLOCK_TAI - CLOCK_REALTIME of the node in seconds, 0 where nobody has set it. Transmit times are CLOCK_TAI's, so nodes
	// of a network must agree on it.
	// +optional
	TAIOffset *int32 `json:"taiOffset,omitempty"`
	// lostSince is when the clock was left alone. Without it somebody keeps it, or nobody ever has.
	// +optional
	LostSince *metav1.Time `json:"lostSince,omitempty"`
	// steps counts jumps of the clock that the agent has seen.
	// +optional
	Steps int64 `json:"steps,omitempty"`
	// message says what is wrong and what to do, if something is.
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
	// state after it.
	// +kubebuilder:validation:Enum=Synchronized;Holdover;Unsynchronized;Unknown
	// +required
	State string `json:"state"`
	// reason of it, such as PortLost.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`
	// grandmaster after it.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Grandmaster string `json:"grandmaster,omitempty"`
}
