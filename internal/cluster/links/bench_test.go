// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"testing"
)

// BenchmarkAPlanOfAThousandServices has each of them one link, which stays.
func BenchmarkAPlanOfAThousandServices(b *testing.B) {
	w := newWorld(2)
	for i := range 1000 {
		name := fmt.Sprintf("s%d", i)
		w.Services = append(w.Services, newService(name, fmt.Sprintf("10.%d.%d.0/24", 64+i/250, i%250)))
		w.endpoint("node0", name)
		w.client("node1", name)
	}
	w.round()
	if len(w.Links) != 1000 {
		b.Fatalf("%d links", len(w.Links))
	}
	for b.Loop() {
		Plan(&w.Input)
	}
}
