// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// Static addresses belong to no node's subnet, so host-local has none of them: the operator gives each to one pod of the cluster, and ktsn-agent
// writes down which (attachment.AddressOwners). ADD waits for that, because a pod that moves may come before the news.
const (
	ownerTimeout  = 10 * time.Second
	ownerInterval = 100 * time.Millisecond
)

const hostLocal = "host-local"

func (c *Config) readStatic(raw json.RawMessage) error {
	var texts []string
	if err := decode(raw, &texts, "a list of IP subnets"); err != nil {
		return err
	}
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix != prefix.Masked() || prefix.Addr().Is4In6() {
			return fmt.Errorf("%q is no IP subnet; give one such as 10.70.255.0/24 or fd42:0:0:ffff::/64, with no bits set behind the prefix", text)
		}
		c.Static = append(c.Static, prefix)
	}
	return nil
}

// staticRequest is the part of a request that the IPAM plugin does not serve.
type staticRequest struct {
	addresses []netip.Addr
	// rest is the configuration for the plugin, without these addresses and the ranges of their families; nil: nothing is left.
	rest []byte
	// routes are those of the configuration, which the plugin would return.
	routes []*types.Route
}

// ipsRequested are the two places of requested addresses.
type ipsRequested struct {
	RuntimeConfig struct {
		IPs []string `json:"ips"`
	} `json:"runtimeConfig"`
	Args struct {
		CNI struct {
			IPs []string `json:"ips"`
		} `json:"cni"`
	} `json:"args"`
}

func (i *ipsRequested) all() []string { return slices.Concat(i.RuntimeConfig.IPs, i.Args.CNI.IPs) }

// requestedAddress parses an address that may have a prefix length; it is invalid for other text.
func requestedAddress(text string) netip.Addr {
	bare, _, _ := strings.Cut(text, "/")
	address, _ := netip.ParseAddr(bare)
	return address
}

// readStaticRequest separates the requested static addresses from what the plugin serves.
func (r *request) readStaticRequest() (*staticRequest, error) {
	var wanted ipsRequested
	if err := json.Unmarshal(r.stdin, &wanted); err != nil || len(r.Static) == 0 {
		return &staticRequest{rest: r.stdin}, nil // ParseConfig has reported what is wrong
	}
	static, families := &staticRequest{rest: r.stdin}, map[bool]netip.Addr{}
	all := wanted.all()
	for _, text := range all {
		address := requestedAddress(text)
		if slices.Contains(static.addresses, address) || !r.isStatic(address) {
			continue
		}
		static.addresses = append(static.addresses, address)
		families[address.Is4()] = address
	}
	if len(static.addresses) == 0 {
		return static, nil
	}
	for _, text := range all {
		address := requestedAddress(text)
		if chosen := families[address.Is4()]; address.IsValid() && chosen.IsValid() && chosen != address {
			return nil, invalid("ips: the pod requests %s and %s; a pod has one static address of a family, and no other of it: leave one out", chosen, address)
		}
	}
	return static, r.leaveForPlugin(static, func(address netip.Addr) bool { return families[address.Is4()].IsValid() })
}

func (r *request) isStatic(address netip.Addr) bool {
	return slices.ContainsFunc(r.Static, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}

// leaveForPlugin fills in rest and routes. served reports whether an address is of a family that has a static one.
func (r *request) leaveForPlugin(static *staticRequest, served func(netip.Addr) bool) error {
	var config map[string]any
	var pools struct {
		IPAM struct {
			Ranges [][]struct {
				Subnet string `json:"subnet"`
			} `json:"ranges"`
			Routes []*types.Route `json:"routes"`
		} `json:"ipam"`
	}
	if err := json.Unmarshal(r.stdin, &config); err != nil {
		return invalid("%v", err)
	}
	if err := json.Unmarshal(r.stdin, &pools); err != nil || r.Standard.IPAM.Type != hostLocal || len(pools.IPAM.Ranges) == 0 {
		return invalid(`static: only with ipam of type %q and its ranges, which are left out for families with a static address`, hostLocal)
	}
	static.routes = pools.IPAM.Routes
	ipam := config["ipam"].(map[string]any)
	all, kept := ipam["ranges"].([]any), []any{}
	for i, set := range pools.IPAM.Ranges {
		if len(set) > 0 && !served(requestedAddress(set[0].Subnet)) {
			kept = append(kept, all[i])
		}
	}
	if len(kept) == 0 {
		static.rest = nil
		return nil
	}
	ipam["ranges"] = kept
	withoutIPs(config["runtimeConfig"], served)
	if args, ok := config["args"].(map[string]any); ok {
		withoutIPs(args["cni"], served)
	}
	var err error
	static.rest, err = json.Marshal(config)
	return err
}

// withoutIPs removes the served addresses from the field ips of an object.
func withoutIPs(object any, served func(netip.Addr) bool) {
	fields, _ := object.(map[string]any)
	if ips, ok := fields["ips"].([]any); ok {
		fields["ips"] = slices.DeleteFunc(ips, func(ip any) bool {
			text, _ := ip.(string)
			return served(requestedAddress(text))
		})
	}
}

// result returns the addresses and routes.
func (s *staticRequest) result() *current.Result {
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, Routes: s.routes}
	for _, address := range s.addresses {
		bits := address.BitLen() // other addresses of the network are behind its route
		result.IPs = append(result.IPs, &current.IPConfig{Address: net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(bits, bits)}})
	}
	return result
}

// awaitAddressOwner waits until the pod has the address on this node.
func (r *request) awaitAddressOwner(ctx context.Context, address netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	pod := attachment.PodName(r.Args)
	err := retry.Until(ctx, ownerInterval, func() error {
		owners, err := attachment.ReadAddressOwners(r.StateDir, r.Standard.Name)
		if err != nil {
			return err
		}
		for _, owner := range owners.Addresses {
			switch {
			case owner.Address != address:
			case owner.Pod != pod:
				return fmt.Errorf("pod %s on node %s has it; request another address, or delete that pod", owner.Pod, owner.Node)
			case owner.Node != owners.Node:
				return fmt.Errorf("the pod of this name on node %s has it", owner.Node)
			case owner.UID != "" && owner.UID != r.Identity:
				return errors.New("an earlier pod of this name has it still")
			default:
				return nil
			}
		}
		return fmt.Errorf("the operator has not given it to pod %s; it may be in the subnet of a node, or the pods of this node have "+
			"as many static addresses as they may", pod)
	})
	if err != nil {
		return types.NewError(attachment.CodeIPAM, fmt.Sprintf("ips: the pod requests %s: %v", address, err), "")
	}
	return nil
}
