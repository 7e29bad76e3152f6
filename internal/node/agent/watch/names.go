// SPDX-License-Identifier: Apache-2.0

package watch

// Reasons of Events of pods.
const (
	// ReasonNoInterface : the pod has a volume of ours and no interface on a network.
	ReasonNoInterface = "TSNInterfaceMissing"
	// ReasonNoVolume : a container preloads libktsn.so, and the pod has no volume with it.
	ReasonNoVolume = "TSNVolumeMissing"
	// ReasonLimit : the pod has all that it may have of something.
	ReasonLimit = "TSNLimitReached"
	// ReasonProgram : a program of the pod cannot load libktsn.so, such as a static one, and its messages are not captured.
	ReasonProgram = "TSNProgramNotCaught"
	// ReasonUnseen : messages with a transmit time passed libktsn.so by and were dropped, because they were not captured or no
	// relay got them. They would have left early.
	ReasonUnseen = "TSNMessageUnseen"
	// ReasonRelay : the frames of the pod that are to be captured are not sent, because their relay is away or ktsnd cannot serve it.
	ReasonRelay = "TSNRelayAway"
	// ReasonKernelPath : the pod's frames without a transmit time are to go through ktsnd, and leave by the kernel, or are dropped if
	// the schedule closes their gate at times.
	ReasonKernelPath = "TSNKernelPath"
)
