// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// sample reads a histogram.
func sample(t *testing.T, histogram prometheus.Histogram) (count uint64, sum float64) {
	t.Helper()
	var read dto.Metric
	testlab.Must(t, histogram.Write(&read))
	return read.Histogram.GetSampleCount(), read.Histogram.GetSampleSum()
}
