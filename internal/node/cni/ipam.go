// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

// ipam implements [attachment.IPAM] with the plugin that the configuration names.
type ipam struct{ *request }

// Add requests the pod's addresses, except static ones, which ktsn-agent knows.
func (i ipam) Add(ctx context.Context, r *attachment.Record) (*current.Result, error) {
	static, err := i.readStaticRequest()
	if err != nil {
		return nil, err
	}
	for _, address := range static.addresses {
		if err := i.awaitAddressOwner(ctx, address); err != nil {
			return nil, err
		}
	}
	result := static.result()
	if static.rest == nil {
		return result, nil
	}
	more, err := i.addByPlugin(ctx, r, static.rest)
	if err != nil || len(result.IPs) == 0 {
		return more, err
	}
	more.IPs = append(result.IPs, more.IPs...)
	return more, nil
}

func (i ipam) addByPlugin(ctx context.Context, r *attachment.Record, config []byte) (*current.Result, error) {
	plugin, err := i.plugin()
	if err != nil {
		return nil, err
	}
	if err := checkRequestedIPs(config); err != nil {
		return nil, err
	}
	answer, err := invoke.ExecPluginWithResult(ctx, plugin, config, i.environment("ADD", r), nil)
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

// checkRequestedIPs returns an error for an address that the pod requests and that is not in the node's ranges of host-local, whose own message does
// not say so. It ignores other plugins and text that is not an address.
func checkRequestedIPs(text []byte) error {
	type pool struct {
		Subnet     string     `json:"subnet"`
		RangeStart netip.Addr `json:"rangeStart"`
		RangeEnd   netip.Addr `json:"rangeEnd"`
	}
	var config struct {
		IPAM struct {
			Type   string   `json:"type"`
			Ranges [][]pool `json:"ranges"`
		} `json:"ipam"`
		ipsRequested
	}
	if json.Unmarshal(text, &config) != nil || config.IPAM.Type != hostLocal {
		return nil
	}
	for _, request := range config.all() {
		address := requestedAddress(request)
		if !address.IsValid() {
			continue
		}
		elsewhere := ""
		for _, allowed := range slices.Concat(config.IPAM.Ranges...) {
			subnet, err := netip.ParsePrefix(allowed.Subnet)
			if err != nil || !allowed.RangeStart.IsValid() || !allowed.RangeEnd.IsValid() || !subnet.Contains(address) {
				continue
			}
			if address.Compare(allowed.RangeStart) >= 0 && address.Compare(allowed.RangeEnd) <= 0 {
				elsewhere = ""
				break
			}
			elsewhere = allowed.RangeStart.String() + " to " + allowed.RangeEnd.String()
		}
		if elsewhere != "" {
			return types.NewError(attachment.CodeIPAM, fmt.Sprintf("ips: the pod requests %s, and this node gives pods %s only: the address belongs to another node, or to none. "+
				"Request one of this node, or select the node of the address", address, elsewhere), "")
		}
	}
	return nil
}

// Run runs a command that has no result. Older plugins without the commands GC and STATUS are left alone.
func (i ipam) Run(ctx context.Context, command string, r *attachment.Record) error {
	config := i.stdin
	if command == "CHECK" {
		static, err := i.readStaticRequest()
		if err != nil || static.rest == nil {
			return err // the plugin has given the pod nothing
		}
		config = static.rest
	}
	plugin, err := i.plugin()
	if err != nil {
		return err
	}
	err = invoke.ExecPluginWithoutResult(ctx, plugin, config, i.environment(command, r), nil)
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

// environment leaves out the key IP of CNI_ARGS where the addresses are requested in the configuration: Multus repeats them there, static ones
// too, and separates two by a comma, which plugins refuse.
func (i ipam) environment(command string, r *attachment.Record) *invoke.Args {
	args := r.Args
	var wanted ipsRequested
	if command != "ADD" || json.Unmarshal(i.stdin, &wanted) == nil && len(wanted.all()) > 0 {
		args = strings.Join(slices.DeleteFunc(strings.Split(args, ";"), func(pair string) bool { return strings.HasPrefix(pair, "IP=") }), ";")
	}
	return &invoke.Args{
		Command: command, ContainerID: r.ContainerID, NetNS: r.Netns, IfName: r.Interface, PluginArgsStr: args, Path: i.path,
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
