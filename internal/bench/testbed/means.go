// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"time"

	"github.com/kubernetsn/kubernetsn/internal/bench/engine"
)

// EncapsulationBytes is what VXLAN takes of the link's MTU.
const EncapsulationBytes = 50

const (
	clusterHas  = "it is that of a cluster; between network namespaces its counterpart is path " + Flannel
	clustersOwn = "which network its pods have is up to the cluster; where it is Flannel with backend host-gw, path " + Primary + " is that"
)

var namespaces = &engine.Means{
	Name:    engine.Namespaces.Name,
	Paths:   []string{Host, Flannel, FlannelHostGW, TSN},
	Direct:  TSN,
	Kernel:  Flannel,
	Missing: map[string]string{Primary: clusterHas},
}

var cluster = &engine.Means{
	Name:         engine.Cluster.Name,
	Paths:        []string{Host, Primary, TSN},
	Direct:       TSN,
	Kernel:       Primary,
	Missing:      map[string]string{FlannelHostGW: clustersOwn, Flannel: clustersOwn},
	Counterparts: map[string]string{Flannel: Primary},
	Overhead:     1500 * time.Millisecond,
}

// Means are the paths between which experiments with other people's programs can be made.
func Means(target string) *engine.Means {
	if target == engine.Cluster.Name {
		return cluster
	}
	return namespaces
}
