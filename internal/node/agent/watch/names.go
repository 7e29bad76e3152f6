// SPDX-License-Identifier: Apache-2.0

package watch

// Reasons of Events of pods.
const (
	// ReasonNoInterface : the pod has no interface on a network that it names, or has a volume of the driver and no interface at all.
	ReasonNoInterface = "TSNInterfaceMissing"
	// ReasonNoVolume : a container preloads libktsn.so, and the pod has no volume with it.
	ReasonNoVolume = "TSNVolumeMissing"
	// ReasonLimit : the pod has reached a limit.
	ReasonLimit = "TSNLimitReached"
	// ReasonProgram : a program of the pod cannot load libktsn.so, such as a static one, and its messages are
	// not captured.
	ReasonProgram = "TSNProgramNotCaught"
	// ReasonUnseen : messages with a transmit time bypassed libktsn.so and were dropped, because they were not
	// captured or no relay got them. They would have left early.
	ReasonUnseen = "TSNMessageUnseen"
	// ReasonRelay : captured frames are not sent, because the relay does not run or ktsnd cannot serve it.
	ReasonRelay = "TSNRelayAway"
	// ReasonKernelPath : frames without a transmit time should pass ktsnd, but leave through the kernel, or
	// are dropped if the schedule closes their gate at times.
	ReasonKernelPath = "TSNKernelPath"
)
