// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"
)

func TestShippedProfilesOnCluster(t *testing.T) {
	for _, name := range shippedOfMessages() {
		profile, err := ReadProfile(name, Cluster)
		if err != nil && strings.Contains(err.Error(), "target: is namespaces") {
			continue // which it says itself
		}
		if err != nil {
			t.Fatal(err)
		}
		if profile.Paths[0] != "tsn" || slices.ContainsFunc(profile.Paths, func(path string) bool { return !slices.Contains(Cluster.Paths, path) }) || profile.Target != "cluster" || profile.Idle != 0 {
			t.Errorf("%s: paths %v of target %s, idle %v", name, profile.Paths, profile.Target, profile.Idle)
		}
		var lacking []string
		for _, gap := range profile.gaps() {
			lacking = append(lacking, gap.What)
		}
		if !slices.Contains(lacking, "workload gates") || profile.Window != (Window{}) {
			t.Errorf("%s: not measured: %v", name, lacking)
		}
		for _, block := range Plan(profile) {
			for _, run := range block.Runs {
				if !slices.Contains(Cluster.Paths, run.Path) || !slices.Contains(Cluster.Workloads, run.Workload) {
					t.Errorf("%s: a run of %s", name, run.Key)
				}
			}
		}
	}
}

func TestClusterProfileIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"target: cluster\npaths: [tsn, direct]":                    "p.yaml:2: paths: path direct cannot be measured: it is between network namespaces; in a cluster its counterpart is path tsn",
		"target: namespaces\npaths: [host]":                        "p.yaml:1: target: is namespaces, and --kubeconfig asks for a cluster; leave one of them out",
		"target: cluster\npaths: [tsn]\nworkloads: [plain, gates]": "p.yaml:3: workloads: workload gates cannot be measured: the schedule is that of the cluster",
		"target: cluster\npaths: [tsn]\nidle: 1s":                  "p.yaml:3: idle: 1s in a cluster",
		"target: cluster\npaths: [tsn]\nspin: 90us":                "p.yaml:3: spin: 90µs in a cluster: ktsnd's options are those of the cluster",
		"paths: [tsn, direct]":                                     "p.yaml:1: paths: path tsn is given twice",
		"paths: [tsn]\nworkloads: [gates]":                         "p.yaml:2: workloads: nothing of it can be measured in a cluster",
	} {
		if _, err := ParseProfile("p.yaml", []byte(text), Cluster); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
}

func TestClusterFigures(t *testing.T) {
	for path, figures := range targets {
		for _, target := range figures {
			if strings.Contains(target.name, " / ") && !strings.Contains(target.name, path+" / "+target.against) {
				t.Errorf("%s compares with %s", target.name, target.against)
			}
		}
	}
}

func TestSpinningPathsHaveCounterparts(t *testing.T) {
	for text, want := range map[string][]string{
		"paths: [direct, kernel-vxlan-spin, kernel-vxlan, host-spin, host]": {"tsn", "primary-spin", "primary", "host-spin", "host"},
		"paths: [tsn, flannel-spin]":                                        {"tsn", "primary-spin"},
	} {
		profile, err := ParseProfile("p.yaml", []byte(text), Cluster)
		if err != nil || !slices.Equal(profile.Paths, want) {
			t.Errorf("%s: %v, %v; want %v", text, profile, err, want)
		}
	}
	_, err := ParseProfile("p.yaml", []byte("target: cluster\npaths: [tsn, flannel-spin]"), Cluster)
	if err == nil || !strings.Contains(err.Error(), "or primary-spin with a talker that spins") {
		t.Error(err)
	}
}
