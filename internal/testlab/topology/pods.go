// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

const podMTU = 1450

// AddPod adds a pod to node a, at the existing bridge of its pods. The caller destroys the pod before the topology.
func (t *Topology) AddPod(name string, address netip.Addr) (_ *Namespace, err error) {
	pod, err := NewNamespace(t.ID.namespace(name))
	if err != nil {
		return nil, err
	}
	success := false
	defer func() {
		if !success {
			err = errors.Join(err, pod.Destroy())
		}
	}()
	if err := pod.Do(prepareNamespace); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", name, err)
	}
	if err := makeVeth(t.NodeA, name, pod, PodInterface, podMTU); err != nil {
		return nil, err
	}
	if err := addAddress(pod, PodInterface, address, PodPrefixBits); err != nil {
		return nil, err
	}
	err = t.NodeA.Do(func() error {
		bridge, err := netlink.LinkByName(BridgeName)
		if err != nil {
			return fmt.Errorf("find %s: %w", BridgeName, err)
		}
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		if err := netlink.LinkSetMTU(link, podMTU); err != nil {
			return fmt.Errorf("set the MTU of %s: %w", name, err)
		}
		if err := netlink.LinkSetMaster(link, bridge); err != nil {
			return fmt.Errorf("put %s to %s: %w", name, BridgeName, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	success = true
	return pod, nil
}
