// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	statsv1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// usageEvery is how often kubelets are asked, between runs; they measure every ten seconds or so.
const usageEvery = 5 * time.Second

// usage asks the kubelets for the usage of nodes and pods, if it is time to.
func (l *Target) usage(ctx context.Context) ([]results.UsageSample, error) {
	if !l.kubelets || time.Since(l.asked) < usageEvery {
		return nil, nil
	}
	l.asked = time.Now()
	var all []results.UsageSample
	for _, node := range []string{l.on.talkers.Name, l.on.listeners.Name} {
		text, err := l.core.Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("stats/summary").
			Param("only_cpu_and_memory", "true").DoRaw(ctx)
		if err != nil {
			return nil, l.explain("ask the kubelet of node "+node, err)
		}
		samples, err := readSummary(text, append([]string{l.Namespace, l.networkNamespace()}, l.namespaces...))
		if err != nil {
			return nil, l.explain("understand the kubelet of node "+node, err)
		}
		all = append(all, samples...)
	}
	return all, nil
}

// readSummary reads the node, and the containers of pods in some namespaces.
func readSummary(text []byte, namespaces []string) ([]results.UsageSample, error) {
	var summary statsv1.Summary
	if err := json.Unmarshal(text, &summary); err != nil {
		return nil, err
	}
	node := summary.Node.NodeName
	all := appendSample(nil, results.UsageSample{Node: node}, summary.Node.CPU, summary.Node.Memory)
	for _, pod := range summary.Pods {
		if !slices.Contains(namespaces, pod.PodRef.Namespace) {
			continue
		}
		for _, container := range pod.Containers {
			all = appendSample(all, results.UsageSample{Node: node, Pod: pod.PodRef.Name, Container: container.Name, UID: pod.PodRef.UID},
				container.CPU, container.Memory)
		}
	}
	return all, nil
}

func appendSample(all []results.UsageSample, sample results.UsageSample, cpu *statsv1.CPUStats, memory *statsv1.MemoryStats) []results.UsageSample {
	if cpu == nil || cpu.UsageCoreNanoSeconds == nil {
		return all
	}
	sample.TimeNs, sample.CPUNs = cpu.Time.UnixNano(), int64(*cpu.UsageCoreNanoSeconds)
	if memory != nil && memory.WorkingSetBytes != nil {
		sample.MemoryBytes = int64(*memory.WorkingSetBytes)
	}
	return append(all, sample)
}
