// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"strings"
	"testing"
)

func TestCheckRequestedIPs(t *testing.T) {
	const ranges = `"ranges": [[{"subnet": "10.70.0.0/16", "rangeStart": "10.70.2.2", "rangeEnd": "10.70.2.254"}], ` +
		`[{"subnet": "fd42::/48", "rangeStart": "fd42:0:0:2::2", "rangeEnd": "fd42:0:0:2::ff"}]]`
	for name, test := range map[string]struct{ ipam, rest, want string }{
		"none":                        {`"type": "host-local", ` + ranges, ``, ""},
		"one of the node":             {`"type": "host-local", ` + ranges, `, "runtimeConfig": {"ips": ["10.70.2.77/16", "fd42:0:0:2::7/48"]}`, ""},
		"one of another node":         {`"type": "host-local", ` + ranges, `, "runtimeConfig": {"ips": ["10.70.1.77/16"]}`, "requests 10.70.1.77, and this node gives pods 10.70.2.2 to 10.70.2.254 only"},
		"by an argument":              {`"type": "host-local", ` + ranges, `, "args": {"cni": {"ips": ["fd42:0:0:1::7"]}}`, "requests fd42:0:0:1::7, and this node gives pods fd42:0:0:2::2 to"},
		"another plugin":              {`"type": "whereabouts", ` + ranges, `, "runtimeConfig": {"ips": ["10.70.1.77/16"]}`, ""},
		"ranges without bounds":       {`"type": "host-local", "ranges": [[{"subnet": "10.70.0.0/16"}]]`, `, "runtimeConfig": {"ips": ["10.70.1.77/16"]}`, ""},
		"one that is in no subnet":    {`"type": "host-local", ` + ranges, `, "runtimeConfig": {"ips": ["10.71.1.77/16"]}`, ""}, // host-local says so
		"text that is not an address": {`"type": "host-local", ` + ranges, `, "runtimeConfig": {"ips": ["seven"]}`, ""},
	} {
		err := checkRequestedIPs(fmt.Appendf(nil, `{"ipam": {%s}%s}`, test.ipam, test.rest))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
