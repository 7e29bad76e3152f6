// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

func TestReportedPodsAreBounded(t *testing.T) {
	huge := strings.Repeat("x", 1<<16)
	pod := tsn.WorkloadPod{Name: huge, Node: "a\x1b[2Jb", Phase: huge, Addresses: make([]string, 10000)}
	for range 1000 {
		pod.Links = append(pod.Links, tsn.WorkloadLink{Service: huge, Peer: huge})
	}
	workload := &federation.Workload{Namespace: "default", Name: "web"}
	for name, test := range map[string]struct {
		total, ready int32
		unseen       bool
	}{
		"below zero": {math.MinInt32, -1, false}, "absurd": {math.MaxInt32, math.MaxInt32, true}, "as it is": {1, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			var all federation.Pods
			addReported(&all, workload, "liar", &tsn.TSNWorkloadStatus{Total: test.total, Ready: test.ready, Pods: []tsn.WorkloadPod{pod}})
			text, err := json.Marshal(all)
			if err != nil || len(text) > 1<<18 {
				t.Errorf("%d bytes are told: %v", len(text), err)
			}
			if len(all.Items) != 1 || all.Items[0].Node != "a [2Jb" || (len(all.Unseen) > 0) != test.unseen {
				t.Errorf("told are %d pods, node %q, and %d clusters with more", len(all.Items), all.Items[0].Node, len(all.Unseen))
			}
		})
	}
	var all federation.Pods
	addReported(&all, workload, "liar", &tsn.TSNWorkloadStatus{Total: 1, Pods: make([]tsn.WorkloadPod, 100000)})
	if len(all.Items) != tsn.MaxWorkloadPods {
		t.Errorf("%d pods are told", len(all.Items))
	}
	most := int32(math.MaxInt32)
	if sum := add(&most, &most); *sum != most {
		t.Errorf("two clusters' absurd numbers are %d", *sum)
	}
}
