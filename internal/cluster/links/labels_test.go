// SPDX-License-Identifier: Apache-2.0

package links

import (
	"strings"
	"testing"
)

func TestParseRoles(t *testing.T) {
	roles, wrong := ParseRoles(map[string]string{"app": "x", "client.kubernetsn.io/camera.site": "cam", "endpoint.kubernetsn.io/log": "log"}, "ns")
	if len(wrong) != 0 || len(roles) != 2 || roles[0] != (Role{"client.kubernetsn.io/camera.site", "camera", "site", true, "cam"}) ||
		roles[1] != (Role{"endpoint.kubernetsn.io/log", "log", "ns", false, "log"}) {
		t.Errorf("got %+v, %v", roles, wrong)
	}
}

func TestParseRolesInvalid(t *testing.T) {
	for key, test := range map[string]struct{ value, text string }{
		"client.kubernetsn.io/a":     {"", "label client.kubernetsn.io/a is empty; its value is the name of the interface"},
		"client.kubernetsn.io/b":     {"sixteen-letters.", "has 16 characters; its value is the name of the interface that the link has in the pod, and has 15 at most"},
		"endpoint.kubernetsn.io/c":   {"twelve-chars", "has 12 characters; its value is what the names of the links' interfaces begin with; a number follows, and has 11 at most"},
		"client.kubernetsn.io/i":     {"cam.waiting", `label client.kubernetsn.io/i is "cam.waiting"; its value is the name of the interface that the link has in the pod, and has no dots`},
		"client.kubernetsn.io/j":     {"default", "which means all interfaces to the kernel; use another name"},
		"client.kubernetsn.io/D":     {"up", `"D" cannot be a TSNService`},
		"client.kubernetsn.io/e.F":   {"up", `"F" is not a namespace; write client.kubernetsn.io/SERVICE.NAMESPACE`},
		"endpoint.kubernetsn.io/g.h": {"up", "a pod is an endpoint of services of its own namespace only"},
	} {
		_, wrong := ParseRoles(map[string]string{key: test.value}, "ns")
		if len(wrong) != 1 || !strings.Contains(wrong[0].Error(), test.text) {
			t.Errorf("%s: got %v, want %q", key, wrong, test.text)
		}
	}
}

func TestParseRolesDuplicate(t *testing.T) {
	labels := map[string]string{"client.kubernetsn.io/camera": "cam", "client.kubernetsn.io/camera.ns": "other", "endpoint.kubernetsn.io/camera": "view"}
	const want = "labels client.kubernetsn.io/camera and client.kubernetsn.io/camera.ns both request a link of TSNService ns/camera, and a pod gets one link of a service; remove one"
	roles, wrong := ParseRoles(labels, "ns")
	if len(roles) != 2 || len(wrong) != 1 || wrong[0].Label != "client.kubernetsn.io/camera.ns" || !strings.Contains(wrong[0].Error(), want) {
		t.Errorf("got %+v, %v", roles, wrong)
	}
	if roles, wrong := ParseRoles(labels, "elsewhere"); len(roles) != 3 || len(wrong) != 0 {
		t.Errorf("of two services of one name, got %+v, %v", roles, wrong)
	}
}

func TestCheckInterfaces(t *testing.T) {
	for name, test := range map[string]struct {
		labels map[string]string
		text   string
	}{
		"none":                        {map[string]string{"client.kubernetsn.io/a": "up", "endpoint.kubernetsn.io/b": "down"}, ""},
		"one name twice":              {map[string]string{"client.kubernetsn.io/a": "up", "client.kubernetsn.io/b": "up"}, "labels client.kubernetsn.io/a and client.kubernetsn.io/b give interface up and interface up"},
		"a name that another may get": {map[string]string{"client.kubernetsn.io/a": "up7", "endpoint.kubernetsn.io/b": "up"}, "which can be the same interface"},
		"a prefix and a longer one":   {map[string]string{"endpoint.kubernetsn.io/a": "x", "endpoint.kubernetsn.io/b": "x1"}, "which can be the same interface"},
		"prefixes that differ":        {map[string]string{"endpoint.kubernetsn.io/a": "x", "endpoint.kubernetsn.io/b": "xy"}, ""},
		"the primary network's":       {map[string]string{"client.kubernetsn.io/a": "eth0"}, "the pod already has an interface eth0 (of the primary network)"},
		"one of an endpoint with eth": {map[string]string{"endpoint.kubernetsn.io/a": "eth"}, "gives interfaces eth0, eth1 and so on, and the pod already has an interface eth0"},
	} {
		t.Run(name, func(t *testing.T) {
			roles, _ := ParseRoles(test.labels, "ns")
			err := CheckInterfaces(roles, map[string]string{"eth0": "of the primary network"})
			if (err == nil) != (test.text == "") || err != nil && !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %q", err, test.text)
			}
		})
	}
}
