// SPDX-License-Identifier: Apache-2.0

// Package stats turns the samples of a run into the figures that are reported.
//
// Percentiles are exact: by nearest rank over all samples, nothing interpolated, binned or thrown away.
package stats
