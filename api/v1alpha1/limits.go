// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// PodLimits are the most that a pod may have of its node's ktsnd. What is not given is what ktsnd was started with
// (--pod-…). A pod on several networks has the lowest of each. They may be changed at any time, and count at once: what a pod
// has above them it keeps until it gives it back, and gets no more.
type PodLimits struct {
	// processes with timed sockets at once. The next one's SO_TXTIME is refused.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 4096",message="limits.processes must be 1 to 4096 processes"
	// +optional
	Processes *int32 `json:"processes,omitempty"`
	// sockets with SO_TXTIME at once.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 1048576",message="limits.sockets must be 1 to 1048576 sockets"
	// +optional
	Sockets *int32 `json:"sockets,omitempty"`
	// memory of the rings between the pod's processes and ktsnd, in MiB. A process needs about 0.8 MiB with an MTU of 1500.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 1048576",message="limits.memory must be 1 to 1048576 MiB, without the unit"
	// +optional
	Memory *int32 `json:"memory,omitempty"`
	// pending messages: taken by ktsnd and not yet sent. More wait in the pod's processes, whose send calls then block, or
	// fail with EAGAIN.
	// +kubebuilder:validation:XValidation:rule="self >= 64 && self <= 1048576",message="limits.pending must be 64 to 1048576 messages"
	// +optional
	Pending *int32 `json:"pending,omitempty"`
	// rate at which messages are taken, in messages a second; 0 is any. More wait, as with pending.
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1000000000",message="limits.rate must be 0 to 1000000000 messages a second; 0 is any"
	// +optional
	Rate *int32 `json:"rate,omitempty"`
	// doorbells: how often a second the pod may wake ktsnd; 0 is any. Above that ktsnd looks once in a millisecond.
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1000000000",message="limits.doorbells must be 0 to 1000000000 a second; 0 is any"
	// +optional
	Doorbells *int32 `json:"doorbells,omitempty"`
	// horizon is how far ahead transmit times may be: a whole number with ns, us, ms or s, such as 10s. Messages further
	// ahead are dropped, and counted as drop-horizon.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,14}(ns|us|ms|s)$') && duration(self) <= duration('86400s')",message="limits.horizon must be a whole number with ns, us, ms or s, at most 86400s, such as 10s"
	// +optional
	Horizon string `json:"horizon,omitempty"`
}
