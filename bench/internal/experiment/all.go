// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/experiment/dds"
	"github.com/kubernetsn/kubernetsn/bench/internal/experiment/links"
	"github.com/kubernetsn/kubernetsn/bench/internal/experiment/scale"
	"github.com/kubernetsn/kubernetsn/bench/internal/experiment/throughput"
)

// Register registers all experiments for profiles.
func Register() {
	engine.Register(dds.Name, dds.New)
	engine.Register(links.Name, links.New)
	engine.Register(scale.Name, scale.New)
	engine.Register(throughput.Name, throughput.New)
}
