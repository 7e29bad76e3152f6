// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
)

// manyPods is how many endpoints a full node has.
const manyPods = 500

// durations holds the durations of one command, by plugin.
type durations map[string][]time.Duration

func (d durations) p50(name string) time.Duration {
	sorted := slices.Sorted(slices.Values(d[name]))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

// report prints the median of each plugin and its ratio to the first.
func (d durations) report(b *testing.B, command, base, compared string) {
	b.ReportMetric(float64(d.p50(base).Microseconds()), command+"-"+base+"-p50-µs")
	b.ReportMetric(float64(d.p50(compared).Microseconds()), command+"-"+compared+"-p50-µs")
	b.ReportMetric(float64(d.p50(compared))/float64(max(d.p50(base), 1)), command+"-ratio")
}

// measure adds and deletes an attachment and notes how long each takes.
func measure(b *testing.B, runtime *libcni.CNIConfig, configs *libcni.NetworkConfigList, at *libcni.RuntimeConf,
	name string, adds, dels durations) {
	b.Helper()
	ctx := context.Background()
	begin := time.Now()
	if _, err := runtime.AddNetworkList(ctx, configs, at); err != nil {
		b.Fatalf("%s: ADD: %v", name, err)
	}
	adds[name] = append(adds[name], time.Since(begin))
	begin = time.Now()
	if err := runtime.DelNetworkList(ctx, configs, at); err != nil {
		b.Fatalf("%s: DEL: %v", name, err)
	}
	dels[name] = append(dels[name], time.Since(begin))
}

// BenchmarkAgainstBridgePlugin attaches and detaches one pod by turns with the reference bridge plugin and with
// tsn-cni, both with host-local, on a node that already has one attachment of each.
func BenchmarkAgainstBridgePlugin(b *testing.B) {
	lab := newLab(b)
	lab.a.startDaemon(b)
	plugins := map[string]*libcni.NetworkConfigList{
		"tsn-cni": list(b, lab.a.config(nil)),
		"bridge":  list(b, lab.a.bridgePlugin()),
	}
	resident, visitor := lab.a.newPod(b), lab.a.newPod(b)
	for name, configs := range plugins {
		at := resident.attachment()
		at.IfName = "eth-" + name[:3]
		must(b, lab.a.attach(configs, at))
		defer func() { _ = lab.a.runtime.DelNetworkList(context.Background(), configs, at) }()
	}
	adds, dels := durations{}, durations{}
	for b.Loop() {
		for name, configs := range plugins {
			measure(b, lab.a.runtime, configs, visitor.attachment(), name, adds, dels)
		}
	}
	adds.report(b, "add", "bridge", "tsn-cni")
	dels.report(b, "del", "bridge", "tsn-cni")
}

// bridgePlugin returns the configuration of the reference plugin that is closest to what tsn-cni does.
func (n *node) bridgePlugin() map[string]any {
	ipam := n.hostLocal(n.subnet)
	ipam["ranges"] = [][]fields{{{"subnet": "10.99.0.0/16"}}}
	ipam["dataDir"] = n.dir + "/ipam-bridge"
	return map[string]any{"type": "bridge", "bridge": "cni0", "ipam": ipam}
}

// BenchmarkWithManyEndpoints compares a node with one endpoint with a node with 500. The attachments alternate between
// the two nodes. host-local reads every allocated address, which users wait for too; the second benchmark shows tsn-cni
// without it.
func BenchmarkWithManyEndpoints(b *testing.B) {
	for _, ipam := range []string{"host-local", "static"} {
		b.Run("ipam="+ipam, func(b *testing.B) { benchmarkCrowd(b, ipam) })
	}
}

func benchmarkCrowd(b *testing.B, ipam string) {
	lab := newLab(b)
	nodes := map[string]*node{"1": lab.a, strconv.Itoa(manyPods): lab.b}
	visitors := map[string]*pod{}
	configs := map[string]*libcni.NetworkConfigList{}
	for name, n := range nodes {
		n.subnet = lab.wide(name == "1")
		n.startDaemon(b)
		visitors[name] = n.newPod(b)
		count := manyPods
		if name == "1" {
			count = 1
		}
		n.populate(b, count)
		changes := fields{}
		if ipam == "static" {
			changes["ipam"] = static("10.42.255.1/16")
		}
		configs[name] = list(b, n.config(changes))
	}
	adds, dels := durations{}, durations{}
	for b.Loop() {
		for name, n := range nodes {
			measure(b, n.runtime, configs[name], visitors[name].attachment(), name, adds, dels)
		}
	}
	adds.report(b, "add", "1", strconv.Itoa(manyPods))
	dels.report(b, "del", "1", strconv.Itoa(manyPods))
}
