// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"strings"
	"testing"
)

func TestCheckProcessors(t *testing.T) {
	const (
		queues  = ", kubernetsn.io/device-queues: '2'"
		vcpus   = ", io.katacontainers.config.hypervisor.default_vcpus: "
		refused = `annotation kubernetsn.io/device-queues is "2", and the pod's machine has one processor (`
	)
	limited := func(limits ...string) string {
		var containers []string
		for _, limit := range limits {
			containers = append(containers, "{name: app, resources: {limits: {cpu: "+limit+"}}}")
		}
		return "runtimeClassName: kata, containers: [" + strings.Join(containers, ", ") + "]"
	}
	for name, test := range map[string]struct{ annotations, spec, sentence string }{
		"one queue of one processor":      {"", inKata, ""},
		"Kata's default":                  {queues, inKata, refused + "Kata's default): a queue would wait while another is served; give it two or more by annotation io.katacontainers.config.hypervisor.default_vcpus or by limits of cpu, or one queue"},
		"one by annotation":               {queues + vcpus + "'1'", inKata, refused + "annotation io.katacontainers.config.hypervisor.default_vcpus)"},
		"two by annotation":               {queues + vcpus + "'2'", inKata, ""},
		"more than one, which is two":     {queues + vcpus + "'1.5'", inKata, ""},
		"no number":                       {queues + vcpus + "two", inKata, `annotation io.katacontainers.config.hypervisor.default_vcpus is "two"; give a number of processors`},
		"not above zero":                  {queues + vcpus + "'NaN'", inKata, `is "NaN"; give a number of processors`},
		"limits of two":                   {queues, limited("'2'"), ""},
		"limits that are above one":       {queues, limited("700m", "600m"), ""},
		"limits of one, before the other": {queues + vcpus + "'2'", limited("500m", "500m"), refused + "its limits of cpu are 1)"},
		"limits of the pod":               {queues, "resources: {limits: {cpu: 3}}, " + inKata, ""},
		"limits of sidecars": {queues, "initContainers: [{name: ktsn-guest, restartPolicy: Always, resources: {limits: {cpu: 1}}}, {name: once, resources: {limits: {cpu: 9}}}], " +
			limited("100m"), ""},
		"limits of what ends before": {queues, "initContainers: [{name: once, resources: {limits: {cpu: 9}}}], " + inKata, refused},
	} {
		t.Run(name, func(t *testing.T) {
			err := mutate(parsePod(t, annotated(test.annotations, test.spec)), "ns", []string{"tsn"}, dans)
			if (err == nil) != (test.sentence == "") || (err != nil && !strings.Contains(err.Error(), test.sentence)) {
				t.Errorf("got %v, want %q", err, test.sentence)
			}
		})
	}
}
