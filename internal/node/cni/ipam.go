// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

// ipam implements [attachment.IPAM] with the plugin that the configuration names.
type ipam struct{ *request }

// Add requests the pod's addresses.
func (i ipam) Add(ctx context.Context, r *attachment.Record) (*current.Result, error) {
	plugin, err := i.plugin()
	if err != nil {
		return nil, err
	}
	answer, err := invoke.ExecPluginWithResult(ctx, plugin, i.stdin, i.environment("ADD", r), nil)
	if err != nil {
		return nil, i.failed(err)
	}
	result, err := current.NewResultFromResult(answer)
	if err != nil {
		return nil, i.failed(err)
	}
	if len(result.IPs) == 0 {
		return nil, i.failed(errors.New("it gave no address"))
	}
	for _, ip := range result.IPs {
		if ip.Address.IP.To16() == nil {
			return nil, i.failed(fmt.Errorf("%v is no IP address", ip.Address.IP))
		}
	}
	return result, nil
}

// Run runs a command that has no result. Older plugins without the commands GC and STATUS are left alone.
func (i ipam) Run(ctx context.Context, command string, r *attachment.Record) error {
	plugin, err := i.plugin()
	if err != nil {
		return err
	}
	err = invoke.ExecPluginWithoutResult(ctx, plugin, i.stdin, i.environment(command, r), nil)
	if err == nil || (command == "GC" || command == "STATUS") && isUnsupported(err) {
		return nil
	}
	return i.failed(err)
}

// plugin finds the plugin in CNI_PATH.
func (i ipam) plugin() (string, error) {
	path, err := invoke.FindInPath(i.Standard.IPAM.Type, filepath.SplitList(i.path))
	if err != nil {
		return "", invalid("ipam: plugin %s is not in CNI_PATH (%s); install it there", i.Standard.IPAM.Type, i.path)
	}
	return path, nil
}

func (i ipam) environment(command string, r *attachment.Record) *invoke.Args {
	return &invoke.Args{
		Command: command, ContainerID: r.ContainerID, NetNS: r.Netns, IfName: r.Interface, PluginArgsStr: r.Args, Path: i.path,
	}
}

// failed keeps the plugin's code, if it returned one.
func (i ipam) failed(err error) error {
	code := uint(attachment.CodeIPAM)
	var coded *types.Error
	if errors.As(err, &coded) && coded.Code != 0 {
		code = coded.Code
	}
	return types.NewError(code, fmt.Sprintf("IPAM plugin %s: %v", i.Standard.IPAM.Type, err), "")
}

// isUnsupported reports whether a plugin does not know a command that came with a later specification.
func isUnsupported(err error) bool {
	var coded *types.Error
	return errors.As(err, &coded) && strings.Contains(coded.Msg, "unknown CNI_COMMAND")
}
