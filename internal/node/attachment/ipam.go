// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// ipamPlugin finds the plugin in CNI_PATH.
func (r *request) ipamPlugin() (string, error) {
	path, err := invoke.FindInPath(r.Standard.IPAM.Type, filepath.SplitList(r.path))
	if err != nil {
		return "", invalid("ipam: plugin %s is not in CNI_PATH (%s); install it there", r.Standard.IPAM.Type, r.path)
	}
	return path, nil
}

// ipamAdd asks the IPAM plugin for the pod's addresses.
func (r *request) ipamAdd(ctx context.Context) (*current.Result, error) {
	plugin, err := r.ipamPlugin()
	if err != nil {
		return nil, err
	}
	answer, err := invoke.ExecPluginWithResult(ctx, plugin, r.stdin, r.environmentFor("ADD"), nil)
	if err != nil {
		return nil, r.ipamFailed(err)
	}
	result, err := current.NewResultFromResult(answer)
	if err != nil {
		return nil, r.ipamFailed(err)
	}
	if len(result.IPs) == 0 {
		return nil, r.ipamFailed(errors.New("it gave no address"))
	}
	return result, nil
}

// ipam has the IPAM plugin do what has no result.
func (r *request) ipam(ctx context.Context, command string) error {
	plugin, err := r.ipamPlugin()
	if err != nil {
		return err
	}
	if err := invoke.ExecPluginWithoutResult(ctx, plugin, r.stdin, r.environmentFor(command), nil); err != nil {
		return r.ipamFailed(err)
	}
	return nil
}

// ipamFailed keeps the plugin's own code, if it gave one.
func (r *request) ipamFailed(err error) error {
	code := uint(CodeIPAM)
	var said *types.Error
	if errors.As(err, &said) && said.Code != 0 {
		code = said.Code
	}
	return types.NewError(code, fmt.Sprintf("IPAM plugin %s: %v", r.Standard.IPAM.Type, err), "")
}

// hardwareAddress is that of the pod's interface: the one asked for, else one that follows from the first IPv4
// address, else from the first address.
func (r *request) hardwareAddress(result *current.Result) (net.HardwareAddr, error) {
	if r.MAC != "" {
		return net.ParseMAC(r.MAC)
	}
	chosen := result.IPs[0].Address.IP
	for _, ip := range result.IPs {
		if ip.Address.IP.To4() != nil {
			chosen = ip.Address.IP
			break
		}
	}
	address, ok := netip.AddrFromSlice(chosen)
	if !ok {
		return nil, r.ipamFailed(fmt.Errorf("%v is no IP address", chosen))
	}
	return overlay.HardwareAddress(address), nil
}
