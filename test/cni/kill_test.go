// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// killedAt returns a runtime whose tsn-cni kills itself at a fault point.
func (n *node) killedAt(t *testing.T, point string) *libcni.CNIConfig {
	t.Helper()
	return n.runtimeWith(t, killablePlugin(t), fault.Variable+"="+point)
}

// killAdd runs an ADD that is killed at a fault point.
func (n *node) killAdd(t *testing.T, point string, configs *libcni.NetworkConfigList, at *libcni.RuntimeConf) {
	t.Helper()
	_, err := n.killedAt(t, point).AddNetworkList(t.Context(), configs, at)
	mustBeKilled(t, err)
}

// mustBeKilled checks that the plugin was killed at its fault point.
func mustBeKilled(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Fatalf("it was not killed: %v", err)
	}
}

// cleaners are the two ways in which a runtime cleans up after a killed command.
var cleaners = map[string]func(*testing.T, *pod, *libcni.NetworkConfigList){
	"DEL": func(t *testing.T, pod *pod, configs *libcni.NetworkConfigList) {
		must(t, pod.node.runtime.DelNetworkList(t.Context(), configs, pod.attachment()))
	},
	"GC": func(t *testing.T, pod *pod, configs *libcni.NetworkConfigList) {
		must(t, pod.node.gc(t, pod.node.forgetful(t, shipped(t)), configs))
	},
}

// way is a way to attach a pod, completely or not.
type way struct {
	name string
	run  func(*testing.T)
}

// killedAdds are ADDs that are killed at fault points.
func (p *pod) killedAdds(configs *libcni.NetworkConfigList, points []string) (ways []way) {
	for _, point := range points {
		ways = append(ways, way{"ADD killed at " + point, func(t *testing.T) { p.node.killAdd(t, point, configs, p.attachment()) }})
	}
	return ways
}

// killedDels are DELs that are killed at fault points.
func (p *pod) killedDels(configs *libcni.NetworkConfigList, points []string) (ways []way) {
	for _, point := range points {
		ways = append(ways, way{"DEL killed at " + point, func(t *testing.T) {
			must(t, p.node.attach(configs, p.attachment()))
			mustBeKilled(t, p.node.killedAt(t, point).DelNetworkList(t.Context(), configs, p.attachment()))
		}})
	}
	return ways
}

// checkCleanedUp cleans up after each way by DEL and GC in turns, or by each of them (testlab.Long).
func (p *pod) checkCleanedUp(t *testing.T, configs *libcni.NetworkConfigList, inventory func() []string, ways []way) {
	t.Helper()
	before := inventory()
	for i, way := range ways {
		for j, name := range []string{"DEL", "GC"} {
			if (i+j)%2 != 0 && !testlab.Long() {
				continue
			}
			t.Run(way.name+", then "+name, func(t *testing.T) {
				way.run(t)
				cleaners[name](t, p, configs)
				checkSame(t, "after "+name, before, inventory())
			})
		}
	}
}

func TestKilledAddIsCleanedUp(t *testing.T) {
	t.Parallel()
	pod := newServedLab(t).a.newPod(t)
	configs := list(t, pod.node.config(nil))
	pod.checkCleanedUp(t, configs, func() []string { return pod.node.inventory(t, pod) }, pod.killedAdds(configs, fault.Add))
}

func TestKilledDelIsCompleted(t *testing.T) {
	t.Parallel()
	pod := newServedLab(t).a.newPod(t)
	configs := list(t, pod.node.config(nil))
	pod.checkCleanedUp(t, configs, func() []string { return pod.node.inventory(t, pod) }, pod.killedDels(configs, fault.Del))
}

// TestKilledAddHarmsNoOther checks a pod that existed before and attaches the killed one at the end.
func TestKilledAddHarmsNoOther(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	resident, victim := lab.a.newPod(t), lab.a.newPod(t)
	config := lab.a.config(nil)
	configs := list(t, config)
	resident.add(t, config)
	before := lab.a.inventory(t, resident, victim)
	for _, point := range fault.Add {
		if point == "bridge-made" || point == "tunnel-made" {
			continue // they exist
		}
		t.Run(point, func(t *testing.T) {
			lab.a.killAdd(t, point, configs, victim.attachment())
			if err := lab.a.runtime.CheckNetworkList(t.Context(), configs, resident.attachment()); err != nil {
				t.Errorf("the other pod: %v", err)
			}
			must(t, lab.a.gc(t, lab.a.forgetful(t, shipped(t)), configs, resident))
			checkSame(t, "after GC", before, lab.a.inventory(t, resident, victim))
			if _, err := lab.a.runtime.AddNetworkList(t.Context(), configs, victim.attachment()); err != nil {
				t.Fatalf("it cannot be attached afterwards: %v", err)
			}
			must(t, lab.a.runtime.DelNetworkList(t.Context(), configs, victim.attachment()))
			checkSame(t, "after DEL", before, lab.a.inventory(t, resident, victim))
		})
	}
}

// TestKilledGCIsCompleted runs through the fault points of DEL, which GC executes for each attachment.
func TestKilledGCIsCompleted(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	before := lab.a.inventory(t, pod)
	configs := list(t, lab.a.config(nil))
	for _, point := range fault.Del {
		t.Run(point, func(t *testing.T) {
			must(t, lab.a.attach(configs, pod.attachment()))
			killed := lab.a.forgetful(t, killablePlugin(t), fault.Variable+"="+point)
			mustBeKilled(t, lab.a.gc(t, killed, configs))
			must(t, lab.a.gc(t, lab.a.forgetful(t, shipped(t)), configs))
			checkSame(t, "after the second GC", before, lab.a.inventory(t, pod))
		})
	}
}

// TestKilledAddCanBeRepeated repeats ADD without DEL, as after a crash of the runtime.
func TestKilledAddCanBeRepeated(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	pod := lab.a.newPod(t)
	before := lab.a.inventory(t, pod)
	config := lab.a.config(fields{"ipam": static("10.42.1.9/16")})
	configs := list(t, config)
	for _, point := range fault.Add[:6] {
		t.Run(point, func(t *testing.T) {
			lab.a.killAdd(t, point, configs, pod.attachment())
			if _, err := lab.a.runtime.AddNetworkList(t.Context(), configs, pod.attachment()); err != nil {
				t.Errorf("ADD: %v", err)
			}
			pod.del(t, config)
			checkSame(t, "after DEL", before, lab.a.inventory(t, pod))
		})
	}
}
