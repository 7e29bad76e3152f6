// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func TestNetworksOf(t *testing.T) {
	for value, want := range map[string][]string{"tsn": {"tsn"}, " b , a": {"b", "a"}} {
		if got, err := NetworksOf(value); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v, want %v", value, got, err, want)
		}
	}
	for value, sentence := range map[string]string{
		"": "is empty", " ": "is empty", "a,": `"" is no name`, "A": `"A" is no name`, "a,a": "names a twice",
		"a b": `"a b" is no name`, "ns/a": "is no name", strings.Repeat("x", 64): "is no name",
		"a,b,c,d,e,f,g,h,i,j,k": "names 11 networks; a pod can be on 10",
	} {
		if _, err := NetworksOf(value); err == nil || !strings.Contains(err.Error(), sentence) {
			t.Errorf("%q: got %v, want %q", value, err, sentence)
		}
	}
}

func exampleNetwork(t *testing.T) *v1alpha1.TSNNetwork {
	t.Helper()
	text, err := os.ReadFile("../../../examples/schedule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Table v1alpha1.GateParameterTable `json:"gate-parameter-table"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.TSNNetwork{Spec: v1alpha1.TSNNetworkSpec{Schedule: &file.Table}}
}

func TestGatesOf(t *testing.T) {
	gates, err := GatesOf(exampleNetwork(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(gates.Table.AdminControlList.Entries) != 3 || gates.Table.AdminCycleTime.Nanoseconds() != 1e6 ||
		gates.Table.QueueMaxSDUTable[0].QueueMaxSDU != 1500 || gates.Table.AdminGateStates != 255 {
		t.Errorf("read %+v", gates.Table)
	}
	other := exampleNetwork(t)
	other.Spec.Schedule.AdminControlList.Entries[0].GateStatesValue = 1
	changed, err := GatesOf(other)
	if err != nil || changed.Hash() == gates.Hash() {
		t.Errorf("two schedules have hash %s, %v", gates.Hash(), err)
	}
}

func TestGatesOfInvalid(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*v1alpha1.TSNNetworkSpec)
		sentence string
	}{
		"too fast for the link": {func(s *v1alpha1.TSNNetworkSpec) { s.LinkSpeed = "1Mbit" },
			"spec.schedule.admin-control-list.gate-control-entry[0].time-interval-value: is 300000; must be at least 672000"},
		"a cycle that is no whole number": {func(s *v1alpha1.TSNNetworkSpec) { s.Schedule.AdminCycleTime.Denominator = 3 },
			"spec.schedule.admin-cycle-time"},
		"no link speed": {func(s *v1alpha1.TSNNetworkSpec) { s.LinkSpeed = "9999999Gbit" }, "spec.linkSpeed"},
	} {
		t.Run(name, func(t *testing.T) {
			network := exampleNetwork(t)
			test.change(&network.Spec)
			if _, err := GatesOf(network); err == nil || !strings.HasPrefix(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q", err, test.sentence)
			}
		})
	}
}

func TestBaseTime(t *testing.T) {
	const lead = 1_000_000_000
	for name, test := range map[string]struct {
		base  v1alpha1.PTPTime
		nowNs int64
		want  v1alpha1.PTPTime
	}{
		"from zero":              {v1alpha1.PTPTime{}, 5_000_200_000, v1alpha1.PTPTime{Seconds: 6, Nanoseconds: 1_000_000}},
		"on a beginning":         {v1alpha1.PTPTime{}, 5_000_000_000, v1alpha1.PTPTime{Seconds: 6}},
		"in the phase of base":   {v1alpha1.PTPTime{Nanoseconds: 300}, 5_000_000_000, v1alpha1.PTPTime{Seconds: 6, Nanoseconds: 300}},
		"at base when it is far": {v1alpha1.PTPTime{Seconds: 9, Nanoseconds: 7}, 5_000_000_000, v1alpha1.PTPTime{Seconds: 9, Nanoseconds: 7}},
		"after base when it is near": {v1alpha1.PTPTime{Seconds: 5, Nanoseconds: 500_000_100}, 5_000_000_000,
			v1alpha1.PTPTime{Seconds: 6, Nanoseconds: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			network := exampleNetwork(t)
			network.Spec.Schedule.AdminBaseTime = &test.base
			gates, err := GatesOf(network)
			if err != nil {
				t.Fatal(err)
			}
			got := gates.BaseTime(test.nowNs, lead)
			if got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if at := gates.WithBaseTime(got).Table.AdminBaseTime; int64(at.Seconds) != got.Seconds {
				t.Errorf("asked for %v", at)
			}
		})
	}
}
