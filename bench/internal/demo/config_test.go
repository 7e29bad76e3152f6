// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
)

func validConfig() Config {
	return Config{
		Messages:     5000,
		Alternations: 5,
		Payloads:     []int{64, 256, 1024},
		Cycle:        time.Millisecond,
		Paths:        engine.PodPaths,
		Workloads:    AllWorkloads,
		Now:          time.Now,
	}
}

func TestUnavailablePathIsSkipped(t *testing.T) {
	var output strings.Builder
	config := validConfig()
	config.Report = &output
	config.leaveOVS(t.Context(), func(context.Context) error { return errors.New("no hugepages") })
	if slices.Contains(config.Workloads, "pmd-sleep") || config.check() != nil {
		t.Errorf("its workload stays: %v, %v", config.Workloads, config.check())
	}
	if slices.Contains(config.Paths, "ovs") || len(config.Paths) != len(engine.PodPaths)-1 || output.String() != "Path ovs is skipped: no hugepages\n" {
		t.Errorf("it measures %v and says %q", config.Paths, output.String())
	}
	config = validConfig()
	config.leaveOVS(t.Context(), func(context.Context) error { return nil })
	if !slices.Contains(config.Paths, "ovs") {
		t.Error("it is skipped although it can be had")
	}
}

func TestInvalidConfigs(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"the defaults are good":         {func(*Config) {}, ""},
		"no alternation":                {func(c *Config) { c.Alternations = 0 }, "0 alternations"},
		"fewer messages than pieces":    {func(c *Config) { c.Messages = 4 }, "too few"},
		"more than ktsnd remembers":     {func(c *Config) { c.Messages = 1 << 20 }, "too many"},
		"a cycle that nobody can keep":  {func(c *Config) { c.Cycle = time.Microsecond }, "a cycle of 1µs"},
		"no payload":                    {func(c *Config) { c.Payloads = nil }, "no payload"},
		"a payload without a header":    {func(c *Config) { c.Payloads = []int{8} }, "a payload of 8 bytes"},
		"a payload that fills the link": {func(c *Config) { c.Payloads = []int{1423} }, "a payload of 1423"},
		"a payload twice":               {func(c *Config) { c.Payloads = []int{64, 64} }, "given twice"},
		"no path":                       {func(c *Config) { c.Paths = nil }, "no path"},
		"a path of another project":     {func(c *Config) { c.Paths = []string{"flannel"} }, "path flannel cannot be measured"},
		"a path twice":                  {func(c *Config) { c.Paths = []string{"host", "host"} }, "given twice"},
		"no workload":                   {func(c *Config) { c.Workloads = nil }, "no workload"},
		"a workload that nobody knows":  {func(c *Config) { c.Workloads = []string{"chaos"} }, `"chaos"`},
		"a workload of the bench only":  {func(c *Config) { c.Workloads = []string{"competing"} }, "`ktsn bench` measures it"},
		"a workload twice":              {func(c *Config) { c.Workloads = []string{"gates", "gates"} }, "workload gates is given twice"},
		"gates where there are none": {func(c *Config) { c.Paths, c.Workloads = []string{"host"}, []string{"gates"} },
			"not path direct"},
		"polling of an Open vSwitch that is not there": {func(c *Config) { c.Paths, c.Workloads = []string{"host"}, []string{"pmd-sleep"} },
			"not path ovs"},
		"gates of no path, beside what needs none": {func(c *Config) { c.Paths = []string{"host"} }, ""},
		"a cycle in which too much can leave": {func(c *Config) { c.Cycle = time.Second },
			"a cycle of 1s with workload gates; give at most 100ms"},
		"a long cycle without gates": {func(c *Config) { c.Cycle, c.Workloads = time.Second, []string{"plain"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := validConfig()
			test.change(&config)
			err := config.check()
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
