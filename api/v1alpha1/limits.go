// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// PodLimits are the limits of a pod at its node's ktsnd. The defaults are ktsnd's options (--pod-…). A pod on several networks has the
// lowest of each limit. Changes apply at once: a pod above a new limit keeps what it has and gets no more.
type PodLimits struct {
	// processes is the number of processes with timed sockets. SO_TXTIME of further processes is refused.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 4096",message="limits.processes must be 1 to 4096 processes"
	// +optional
	Processes *int32 `json:"processes,omitempty"`
	// sockets is the number of sockets with SO_TXTIME.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 1048576",message="limits.sockets must be 1 to 1048576 sockets"
	// +optional
	Sockets *int32 `json:"sockets,omitempty"`
	// memory of the rings between the pod's processes and ktsnd, in MiB. A process needs about 0.8 MiB with an MTU of 1500.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 1048576",message="limits.memory must be 1 to 1048576 MiB, without the unit"
	// +optional
	Memory *int32 `json:"memory,omitempty"`
	// pending is the number of messages that ktsnd has taken and not yet sent. Further messages wait in the pod's processes, whose send
	// calls then block or fail with EAGAIN.
	// +kubebuilder:validation:XValidation:rule="self >= 64 && self <= 1048576",message="limits.pending must be 64 to 1048576 messages"
	// +optional
	Pending *int32 `json:"pending,omitempty"`
	// rate is the number of messages that ktsnd takes per second; 0 is no limit. Further messages wait, as with pending.
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1000000000",message="limits.rate must be 0 to 1000000000 messages a second; 0 is any"
	// +optional
	Rate *int32 `json:"rate,omitempty"`
	// doorbells is how often the pod may wake ktsnd per second; 0 is no limit. Above the limit ktsnd polls every millisecond.
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
