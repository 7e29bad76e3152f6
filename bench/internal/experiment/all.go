// SPDX-License-Identifier: Apache-2.0

// Package experiment has the measurements of a bench other than messages between talkers and listeners, one package
// each. An experiment (engine.Experiment) defines its cases, performs them with its own programs on a target (package
// netnstarget or clustertarget), and reports the results. Package engine provides order, storage and the report's page.
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
