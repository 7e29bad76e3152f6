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
		return OnLink(name, "connect to "+BridgeName, func(link netlink.Link) error {
			return errors.Join(netlink.LinkSetMTU(link, podMTU), netlink.LinkSetMaster(link, bridge))
		})
	})
	if err != nil {
		return nil, err
	}
	success = true
	return pod, nil
}
