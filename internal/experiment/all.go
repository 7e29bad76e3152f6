// SPDX-License-Identifier: Apache-2.0

package experiment

import "github.com/kubernetsn/kubernetsn/internal/bench"

// Register makes all experiments known to profiles.
func Register() {
	bench.Register("scale", newScale)
}
