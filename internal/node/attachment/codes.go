// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

// Error codes of the specification that skel has no names for, and of this plugin.
const (
	// CodeUnavailable is STATUS's answer when ADD cannot be served.
	CodeUnavailable = 50
	// CodeImpaired is its answer when existing pods are affected, too.
	CodeImpaired = 51

	// CodeUplink: the interface towards the other nodes is missing or cannot be used.
	CodeUplink = 100
	// CodeForeign: a device of the node has a name or number that the network needs, and is something else.
	CodeForeign = 101
	// CodeExists: the attachment, or an interface of its name in the pod, is there already.
	CodeExists = 102
	// CodeAddressTaken: another pod on the bridge has the hardware address.
	CodeAddressTaken = 103
	// CodeKtsnd: ktsnd refused.
	CodeKtsnd = 104
	// CodeIPAM: the IPAM plugin failed and gave no code, or its result cannot be used.
	CodeIPAM = 105
	// CodeDiffers: CHECK found a difference.
	CodeDiffers = 106
	// CodeUnguarded: the kernel cannot drop what libktsn.so does not see.
	CodeUnguarded = 107
	// CodeFilter: the kernel cannot keep foreign packets out of the tunnel.
	CodeFilter = 108
	// CodeClock: the node's clock is unknown or not good enough for the network. It may be good enough later.
	CodeClock = 109
	// CodeCard: no network card of the node can be given to the pod.
	CodeCard = 110
	// CodeEncryption: the network requires encryption, and the node cannot encrypt.
	CodeEncryption = 111
)

// coded returns the error with a code for the runtime, unless it has one.
func coded(code uint, err error) error {
	var already *types.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	return types.NewError(code, errortext.OneLine(err), "")
}

// WithCode adds the code that fits the kind of error, unless it has one.
func WithCode(err error) error {
	var network *overlay.Error
	var refusal *control.Error
	switch {
	case errors.As(err, &network):
		return coded(codeOf(network.Kind), err)
	case errors.As(err, &refusal):
		return coded(CodeKtsnd, err)
	case errors.Is(err, errKtsndSilent), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return coded(types.ErrTryAgainLater, err)
	}
	return coded(types.ErrInternal, err)
}

func codeOf(kind overlay.Kind) uint {
	codes := map[overlay.Kind]uint{
		overlay.Busy: types.ErrTryAgainLater, overlay.NoUplink: CodeUplink, overlay.Foreign: CodeForeign, overlay.Exists: CodeExists,
		overlay.AddressTaken: CodeAddressTaken, overlay.NoFilter: CodeFilter, overlay.NoEncryption: CodeEncryption,
		overlay.TooLarge: types.ErrInvalidNetworkConfig,
	}
	if code, known := codes[kind]; known {
		return code
	}
	return types.ErrInternal
}
