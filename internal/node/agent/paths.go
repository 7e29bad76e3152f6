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

// pathMTUs finds the largest possible MTU of pods' interfaces.
type pathMTUs struct{ *pathmtu.Prober }

// newPaths adds the prober of the paths to nodes of other clusters.
func newPaths(c *core) (pathMTUs, error) {
	prober := &pathmtu.Prober{
		Find: pathmtu.Find, Changed: func() { c.queue.wake(concernSchedule) }, Now: time.Now, Log: c.log.With("part", "paths"),
	}
	return pathMTUs{prober}, c.manager.Add(manager.RunnableFunc(prober.Run))
}

// networkMTU returns the largest possible MTU of pods' interfaces on a network in bytes, limited by the uplink and the
// paths to other clusters. It is 0 if the uplink's MTU is unknown.
func (p pathMTUs) networkMTU(uplink string, joined *network.Joined) int {
	largest := overlay.MostMTU(uplink)
	if largest == 0 {
		return 0
	}
	overhead := overlay.EncapsulationBytes
	if joined.Object.Spec.Encrypted() {
		overhead += xfrm.OverheadBytes
	}
	return max(0, p.PathMTU(foreignAddresses(joined), largest+overlay.EncapsulationBytes)-overhead)
}

// foreignAddresses returns the tunnel addresses of a network's nodes in other clusters.
func foreignAddresses(joined *network.Joined) []netip.Addr {
	var addresses []netip.Addr
	for _, shard := range joined.Shards {
		for i := range shard {
			if shard[i].Cluster != "" && joined.ValidateSubnets(&shard[i]) == nil {
				addresses = append(addresses, shard[i].Address)
			}
		}
	}
	return addresses
}
