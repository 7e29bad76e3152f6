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
	// ReasonProgram : a program of the pod cannot load libktsn.so, such as a static one.
	ReasonProgram = "TSNProgramNotCaught"
	// ReasonUnseen : messages with a transmit time passed libktsn.so by, and were dropped, because they would have left early.
	ReasonUnseen = "TSNMessageUnseen"
)
