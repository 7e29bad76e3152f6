// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// GateParameterTable is the writable part of the container gate-parameter-table of the YANG module ieee802-dot1q-sched, with its names.
// Files for `ktsn schedule check` have the same fields.
//
// +kubebuilder:validation:XValidation:rule="!self.gate__dash__enabled || has(self.admin__dash__cycle__dash__time)",message="schedule.admin-cycle-time is required when gate-enabled is true"
// +kubebuilder:validation:XValidation:rule="!self.gate__dash__enabled || (has(self.admin__dash__control__dash__list) && has(self.admin__dash__control__dash__list.gate__dash__control__dash__entry) && size(self.admin__dash__control__dash__list.gate__dash__control__dash__entry) > 0)",message="schedule.admin-control-list.gate-control-entry must have 1 to 256 entries when gate-enabled is true"
type GateParameterTable struct {
	// gate-enabled false: the list is not executed, and the gates stay in the states of admin-gate-states.
	// +kubebuilder:default=false
	// +optional
	GateEnabled bool `json:"gate-enabled"`
	// admin-gate-states is in force until the list is executed for the first time; bit c is the gate of class c, 1 is
	// open.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	// +kubebuilder:default=255
	// +optional
	AdminGateStates *int32 `json:"admin-gate-states,omitempty"`
	// admin-control-list is executed entry by entry, once a cycle.
	// +optional
	AdminControlList *GateControlList `json:"admin-control-list,omitempty"`
	// admin-cycle-time is a fraction of a second: 1/1000 is a millisecond.
	// +optional
	AdminCycleTime *CycleTime `json:"admin-cycle-time,omitempty"`
	// admin-cycle-time-extension in ns: if a change of schedules would leave a cycle shorter than this, the previous cycle is extended
	// instead.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +optional
	AdminCycleTimeExtension int64 `json:"admin-cycle-time-extension,omitempty"`
	// admin-base-time is when a cycle begins, in TAI. If it is past, or less than a second ahead, all nodes start the schedule a whole
	// number of cycles later, as soon as all of them can have it.
	// +optional
	AdminBaseTime *PTPTime `json:"admin-base-time,omitempty"`
	// queue-max-sdu-table limits the size of the frames of classes.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=traffic-class
	// +optional
	QueueMaxSDUTable []QueueMaxSDU `json:"queue-max-sdu-table,omitempty"`
}

// GateControlList is a list of states of the gates.
type GateControlList struct {
	// gate-control-entry is the list.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.index < size(self) && self[e.index].index == e.index && self.exists_one(f, f.index == e.index))",message="index must count the entries of gate-control-entry: 0, 1, 2, ..."
	// +listType=atomic
	// +optional
	Entries []GateControlEntry `json:"gate-control-entry,omitempty"`
}

// GateControlEntry keeps the gates in a state for an interval.
type GateControlEntry struct {
	// index counts the entries from 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	// +required
	Index int32 `json:"index"`
	// operation-name: without frame preemption there is only set-gate-states.
	// +kubebuilder:validation:Enum={"set-gate-states","ieee802-dot1q-sched:set-gate-states"}
	// +required
	OperationName string `json:"operation-name"`
	// time-interval-value in ns.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	// +required
	TimeIntervalValue int64 `json:"time-interval-value"`
	// gate-states-value has bit c set when the gate of class c is open.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	// +required
	GateStatesValue int32 `json:"gate-states-value"`
}

// CycleTime is a fraction of a second.
type CycleTime struct {
	// numerator in seconds.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	// +required
	Numerator int64 `json:"numerator"`
	// denominator divides it.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	// +required
	Denominator int64 `json:"denominator"`
}

// PTPTime is a time since 1970-01-01T00:00:00 TAI.
type PTPTime struct {
	// seconds since 1970-01-01T00:00:00 TAI.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9000000000
	// +optional
	Seconds int64 `json:"seconds"`
	// nanoseconds is the fraction of a second.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=999999999
	// +optional
	Nanoseconds int32 `json:"nanoseconds"`
}

// QueueMaxSDU limits the size of the frames of a class.
type QueueMaxSDU struct {
	// traffic-class is the number of the class.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=7
	// +required
	TrafficClass int32 `json:"traffic-class"`
	// queue-max-sdu is the largest Ethernet payload in bytes; 0: no limit.
	// +kubebuilder:validation:XValidation:rule="self == 0 || (self >= 46 && self <= 65535)",message="queue-max-sdu must be 46 to 65535 bytes, or 0 for no limit"
	// +optional
	QueueMaxSDU int32 `json:"queue-max-sdu"`
}
