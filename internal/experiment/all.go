// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"github.com/kubernetsn/kubernetsn/internal/bench"
	"github.com/kubernetsn/kubernetsn/internal/experiment/dds"
	"github.com/kubernetsn/kubernetsn/internal/experiment/scale"
	"github.com/kubernetsn/kubernetsn/internal/experiment/throughput"
)

// Register makes all experiments known to profiles.
func Register() {
	bench.Register(dds.Name, dds.New)
	bench.Register(scale.Name, scale.New)
	bench.Register(throughput.Name, throughput.New)
}
