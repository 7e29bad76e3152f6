// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/pathmtu"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
)

// addPaths has the paths to nodes of other clusters asked for their MTU.
func (a *agent) addPaths() error {
	if !a.FromCluster {
		return nil
	}
	a.paths = &pathmtu.Prober{
		Find: pathmtu.Find, Changed: func() { again(a.gatesAgain) }, Now: time.Now, Log: a.log.With("part", "paths"),
	}
	return a.manager.Add(manager.RunnableFunc(a.paths.Run))
}

// mtu is the most that pods' interfaces of a network can have with an uplink by this interface, 0 if that is not known: what the uplink and
// the paths to other clusters' nodes leave.
func (a *agent) mtu(uplink string, joined *network.Joined) int {
	most := overlay.MostMTU(uplink)
	if most == 0 {
		return 0
	}
	takes := overlay.EncapsulationBytes
	if joined.Object.Spec.Encrypted() {
		takes += xfrm.OverheadBytes
	}
	return max(0, a.paths.Least(foreign(joined), most+overlay.EncapsulationBytes)-takes)
}

// foreign are the addresses of a network's nodes in other clusters.
func foreign(joined *network.Joined) []netip.Addr {
	var addresses []netip.Addr
	for _, shard := range joined.Shards {
		for i := range shard {
			if shard[i].Cluster != "" && joined.Trespasses(&shard[i]) == nil {
				addresses = append(addresses, shard[i].Address)
			}
		}
	}
	return addresses
}
