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

// BenchmarkAPlanOfOneLargeService has a thousand clients, each of which gets another of a thousand endpoints, as at its first plan.
func BenchmarkAPlanOfOneLargeService(b *testing.B) {
	for _, nodes := range []int{2, 100} {
		b.Run(fmt.Sprintf("on %d nodes", nodes), func(b *testing.B) {
			w := newWorld(nodes)
			w.Services = append(w.Services, newService("large", "10.64.0.0/16"))
			for i := range 1000 {
				w.endpoint(fmt.Sprintf("node%d", i%nodes), "large")
				w.client(fmt.Sprintf("node%d", (i+1)%nodes), "large")
			}
			for b.Loop() {
				if count := len(Plan(&w.Input).Make); count != 1000 {
					b.Fatalf("%d links", count)
				}
			}
		})
	}
}
