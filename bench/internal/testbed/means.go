// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"maps"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
)

// EncapsulationBytes is VXLAN's overhead.
const EncapsulationBytes = 50

const (
	clusterHas    = "it is that of a cluster; between network namespaces its counterpart is path " + Flannel
	clustersOwn   = "which network its pods have is up to the cluster; where it is Flannel with backend host-gw, path " + Primary + " is that"
	clustersLinks = "a bench makes no TSNService in a cluster; it is measured between network namespaces"
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

// PointToPoint are Means with path link, for experiments between two programs. A cluster's own objects create its
// links.
func PointToPoint(target string) *engine.Means {
	means := *Means(target)
	if target == engine.Cluster.Name {
		means.Missing = maps.Clone(means.Missing)
		means.Missing[Link] = clustersLinks
		return &means
	}
	means.Paths = append(slices.Clone(means.Paths), Link)
	return &means
}

// Means are the paths of experiments with other programs.
func Means(target string) *engine.Means {
	if target == engine.Cluster.Name {
		return cluster
	}
	return namespaces
}
