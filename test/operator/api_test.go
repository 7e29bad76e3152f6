// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// dryCreate validates a network, written in YAML, by a dry run.
func dryCreate(t *testing.T, text string, options ...client.CreateOption) error {
	t.Helper()
	object := parseNetwork(t, text)
	return admin.Create(needServer(t), object, append(options, client.DryRunAll)...)
}

func parseNetwork(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(text), &object.Object))
	object.SetAPIVersion("kubernetsn.io/v1alpha1")
	object.SetKind("TSNNetwork")
	if object.GetName() == "" {
		object.SetName("judged")
	}
	return object
}

// spec writes a network with the fields that are required, and these.
func spec(fields ...string) string {
	return "spec:\n  vni: 42\n  ipv4: {cidr: 10.42.0.0/16}\n  " + strings.Join(fields, "\n  ") + "\n"
}

func TestValidNetworks(t *testing.T) {
	for name, text := range map[string]string{
		"no more than is required":    spec(),
		"a second address":            spec("ipv6: {cidr: 'fd42::/48'}"),
		"routes":                      spec("ipv6: {cidr: 'fd42::/48'}", "routes: [{to: 224.0.0.0/4}, {to: 'ff00::/8'}, {to: 10.9.0.0/16, via: 10.42.1.9}]"),
		"a range for one node":        "spec: {vni: 1, ipv4: {cidr: 10.1.0.0/24}}",
		"an uplink for each of two":   spec("uplinks: [{interface: eno1, nodeSelector: {matchLabels: {a: b}}}, {interface: eno2}]"),
		"a link speed":                spec("linkSpeed: 2500Mbit"),
		"classes":                     spec("trafficClasses: {priorityCodePoints: [0,1,2,3,4,5,6,7]}"),
		"a schedule that is not on":   spec("schedule: {gate-enabled: false, admin-gate-states: 128}"),
		"limits":                      spec("limits: {processes: 4096, sockets: 1, memory: 1048576, pending: 64, rate: 0, doorbells: 1000000000, horizon: 86400000000us}"),
		"no limits after all":         spec("limits: {}"),
		"no more of clocks":           spec("clock: {}"),
		"all of clocks":               spec("clock: {maxError: 999999999ns, holdover: 0s, onLoss: Hold}"),
		"clocks for long":             spec("clock: {maxError: 1ms, holdover: 999999h, onLoss: Refuse}"),
		"a part of the cluster's":     "spec: {vni: 1, ipv4: {cidr: 10.42.0.0/16, part: 10.42.16.0/20}}",
		"a part of each range":        "spec: {vni: 1, ipv4: {cidr: 10.42.0.0/16, part: 10.42.16.0/20}, ipv6: {cidr: 'fd42::/48', part: 'fd42:0:0:1000::/52'}}",
		"a span":                      spec("span: {clusters: {matchLabels: {site: a}}, clusterPrefixLength: 20}"),
		"namespaces":                  spec("namespaceSelector: {matchLabels: {a: b}}"),
		"the schedule of the example": spec("schedule:") + indent(t, "../../examples/schedule.yaml"),
	} {
		t.Run(name, func(t *testing.T) {
			if err := dryCreate(t, text, client.FieldValidation("Strict")); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

// indent takes the table from a file of a schedule.
func indent(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	var document struct {
		Table map[string]any `json:"gate-parameter-table"`
	}
	must(t, yaml.Unmarshal(text, &document))
	inner, err := yaml.Marshal(document.Table)
	must(t, err)
	return "    " + strings.ReplaceAll(strings.TrimSpace(string(inner)), "\n", "\n    ") + "\n"
}

const entry = "{index: 0, operation-name: set-gate-states, time-interval-value: 1000000, gate-states-value: 255}"

func TestInvalidNetworks(t *testing.T) {
	for name, test := range map[string]struct{ text, sentence string }{
		"a name with a dot":    {"metadata: {name: a.b}\n" + spec(), "metadata.name must have 1 to 63 small letters"},
		"no ipv4":              {"spec: {vni: 1}", "spec.ipv4: Required"},
		"a vni of 0":           {"spec: {vni: 0, ipv4: {cidr: 10.0.0.0/16}}", "spec.vni"},
		"a vni too large":      {"spec: {vni: 16777216, ipv4: {cidr: 10.0.0.0/16}}", "spec.vni"},
		"a port of 0":          {spec("port: 0"), "spec.port"},
		"a port too large":     {spec("port: 65536"), "spec.port"},
		"no range":             {"spec: {vni: 1, ipv4: {cidr: ten}}", "ipv4.cidr must be a range of IPv4 such as 10.70.0.0/16"},
		"a range of IPv6":      {"spec: {vni: 1, ipv4: {cidr: 'fd42::/48'}}", "ipv4.cidr must be a range of IPv4"},
		"bits behind":          {"spec: {vni: 1, ipv4: {cidr: 10.42.1.0/16}}", "ipv4.cidr has bits set after its prefix"},
		"a part that is more":  {"spec: {vni: 1, ipv4: {cidr: 10.42.0.0/26}}", "ipv4.nodePrefixLength must be that of cidr or up to 16 more"},
		"too many parts":       {"spec: {vni: 1, ipv4: {cidr: 10.0.0.0/8, nodePrefixLength: 25}}", "up to 16 more"},
		"a part of nothing":    {"spec: {vni: 1, ipv4: {cidr: 10.0.0.0/24, nodePrefixLength: 31}}", "at most 30"},
		"a default route":      {spec("routes: [{to: 0.0.0.0/0}]"), "to must be a range of /4 or smaller"},
		"a route with bits":    {spec("routes: [{to: 10.9.1.0/16}]"), "written by its first address"},
		"a route to itself":    {spec("routes: [{to: 10.42.7.0/24}]"), "routes must not overlap the network's own ranges"},
		"a route around it":    {spec("routes: [{to: 10.0.0.0/8}]"), "routes must not overlap the network's own ranges"},
		"a route of IPv6":      {spec("routes: [{to: 'ff00::/8'}]"), "routes of IPv6 need ipv6"},
		"a router elsewhere":   {spec("routes: [{to: 10.9.0.0/16, via: 10.8.0.1}]"), "via of routes must be an address in the network's own ranges"},
		"a router of IPv6":     {spec("routes: [{to: 10.9.0.0/16, via: 'fd42::1'}]"), "via must be an address of the same family as to"},
		"IPv4 for IPv6":        {spec("ipv6: {cidr: 10.43.0.0/16}"), "ipv6.cidr must be a range of IPv6"},
		"a part outside":       {"spec: {vni: 1, ipv4: {cidr: 10.42.0.0/16, part: 10.43.16.0/20}}", "ipv4.part must be a range of IPv4 in ipv4.cidr"},
		"a part with bits":     {"spec: {vni: 1, ipv4: {cidr: 10.42.0.0/16, part: 10.42.17.0/20}}", "ipv4.part must be a range of IPv4 in ipv4.cidr"},
		"less than a node's":   {"spec: {vni: 1, ipv4: {cidr: 10.42.0.0/16, part: 10.42.17.0/25}}", "not smaller than a node's part"},
		"a part of one range":  {"spec: {vni: 1, ipv4: {cidr: 10.42.0.0/16, part: 10.42.16.0/20}, ipv6: {cidr: 'fd42::/48'}}", "ipv4.part and ipv6.part must be given together"},
		"a hub's and its own":  {"spec: {vni: 1, ipv4: {cidr: 10.42.0.0/16, part: 10.42.16.0/20}, span: {clusterPrefixLength: 20}}", "span and ipv4.part exclude each other"},
		"static elsewhere":     {"spec: {vni: 1, ipv4: {cidr: 10.42.0.0/16, static: 10.43.0.0/24}}", "ipv4.static must be a range of IPv4 in ipv4.cidr"},
		"static with bits":     {"spec: {vni: 1, ipv4: {cidr: 10.42.0.0/16, static: 10.42.255.7/24}}", "written by its first address"},
		"static of IPv4":       {spec("ipv6: {cidr: 'fd42::/48', static: 10.42.255.0/24}"), "ipv6.static must be a range of IPv6 in ipv6.cidr"},
		"static in a part":     {"spec: {vni: 1, ipv4: {cidr: 10.42.0.0/16, part: 10.42.16.0/20, static: 10.42.31.0/24}}", "ipv4.static needs a network of one cluster"},
		"static of a hub":      {"spec: {vni: 1, ipv4: {cidr: 10.42.0.0/16, static: 10.42.31.0/24}, span: {clusterPrefixLength: 20}}", "static ranges need a network of one cluster"},
		"a small mtu":          {spec("mtu: 100"), "mtu must be 1280 to 65535 bytes, or 0"},
		"an interface's name":  {spec("uplinks: [{interface: 'a b'}]"), "interface must be the name of a network interface"},
		"another uplink":       {spec("uplinks: [{interface: a, type: other}]"), "Unsupported value: \"other\""},
		"a speed without unit": {spec("linkSpeed: '1000'"), "linkSpeed must be a whole number with Mbit or Gbit"},
		"a short map":          {spec("trafficClasses: {priorityMap: [1, 2]}"), "spec.trafficClasses.priorityMap"},
		"class 8":              {spec("trafficClasses: {priorityCodePoints: [8,1,2,3,4,5,6,7]}"), "priorityCodePoints[0]"},
		"no cycle":             {spec("schedule: {gate-enabled: true, admin-control-list: {gate-control-entry: [" + entry + "]}}"), "schedule.admin-cycle-time is required"},
		"no list":              {spec("schedule: {gate-enabled: true, admin-cycle-time: {numerator: 1, denominator: 1000}}"), "gate-control-entry must have 1 to 256 entries"},
		"an index twice":       {spec("schedule: {admin-control-list: {gate-control-entry: [" + entry + "," + entry + "]}}"), "index must count the entries"},
		"another operation":    {spec("schedule: {admin-control-list: {gate-control-entry: [{index: 0, operation-name: hold, time-interval-value: 1, gate-states-value: 0}]}}"), "operation-name: Unsupported value"},
		"a small sdu":          {spec("schedule: {queue-max-sdu-table: [{traffic-class: 1, queue-max-sdu: 4}]}"), "queue-max-sdu must be 46 to 65535 bytes"},
		"a class twice":        {spec("schedule: {queue-max-sdu-table: [{traffic-class: 1}, {traffic-class: 1}]}"), "Duplicate value"},
		"no process":           {spec("limits: {processes: 0}"), "limits.processes must be 1 to 4096 processes"},
		"too many sockets":     {spec("limits: {sockets: 1048577}"), "limits.sockets must be 1 to 1048576 sockets"},
		"memory with a unit":   {spec("limits: {memory: 64Mi}"), "spec.limits.memory"},
		"no memory":            {spec("limits: {memory: 0}"), "limits.memory must be 1 to 1048576 MiB, without the unit"},
		"few pending":          {spec("limits: {pending: 63}"), "limits.pending must be 64 to 1048576 messages"},
		"a rate below none":    {spec("limits: {rate: -1}"), "limits.rate must be 0 to 1000000000 messages a second; 0 is any"},
		"too many doorbells":   {spec("limits: {doorbells: 1000000001}"), "limits.doorbells must be 0 to 1000000000 a second; 0 is any"},
		"no unit of a horizon": {spec("limits: {horizon: '10'}"), "limits.horizon must be a whole number with ns, us, ms or s, at most 86400s, such as 10s"},
		"a horizon too far":    {spec("limits: {horizon: 86401s}"), "limits.horizon must be a whole number"},
		"a part of a second":   {spec("limits: {horizon: 1.5s}"), "limits.horizon must be a whole number"},
		"no error at all":      {spec("clock: {maxError: 0us}"), "maxError must be a whole number with ns, us, ms or s, such as 10us"},
		"an error in minutes":  {spec("clock: {maxError: 1m}"), "maxError must be a whole number"},
		"a part of an error":   {spec("clock: {maxError: 1.5us}"), "maxError must be a whole number"},
		"an error of a number": {spec("clock: {maxError: 10}"), "spec.clock.maxError"},
		"a holdover of none":   {spec("clock: {holdover: '0'}"), "holdover must be a whole number with ms, s, m or h, such as 1m, or 0s"},
		"a holdover below":     {spec("clock: {holdover: -1s}"), "holdover must be a whole number"},
		"a holdover in days":   {spec("clock: {holdover: 1d}"), "holdover must be a whole number"},
		"another loss":         {spec("clock: {onLoss: Stop}"), "Unsupported value: \"Stop\""},
		"more of clocks":       {spec("clock: {minError: 1us}"), `unknown field "spec.clock.minError"`},
		"an unknown field":     {spec("vlan: 4"), `unknown field "spec.vlan"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := dryCreate(t, test.text, client.FieldValidation("Strict"))
			if err == nil || !strings.Contains(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q in it", err, test.sentence)
			}
		})
	}
}

func TestNetworkUpdates(t *testing.T) {
	for name, test := range map[string]struct {
		path     []string
		value    any
		sentence string
	}{
		"limits":                   {[]string{"limits"}, map[string]any{"rate": int64(7)}, ""},
		"clocks where were none":   {[]string{"clock"}, map[string]any{"maxError": "1us"}, ""},
		"the mtu":                  {[]string{"mtu"}, int64(1400), ""},
		"a range that grows much":  {[]string{"ipv4", "cidr"}, "10.0.0.0/9", ""},
		"a range that grows truly": {[]string{"ipv4", "cidr"}, "10.42.0.0/15", ""},
		"a range that shrinks":     {[]string{"ipv4", "cidr"}, "10.42.0.0/17", "ipv4.cidr can only grow"},
		"another range":            {[]string{"ipv4", "cidr"}, "10.52.0.0/16", "ipv4.cidr can only grow"},
		"other parts":              {[]string{"ipv4", "nodePrefixLength"}, int64(25), "nodePrefixLength cannot be changed"},
		"the vni":                  {[]string{"vni"}, int64(7), "vni cannot be changed"},
		"static where was none":    {[]string{"ipv4", "static"}, "10.42.255.0/24", ""},
		"the same port":            {[]string{"port"}, int64(4789), ""},
		"another port":             {[]string{"port"}, int64(8472), "port cannot be changed"},
		"a part where was none":    {[]string{"ipv4", "part"}, "10.42.16.0/20", "ipv4.part cannot be added"},
		"a span where was none":    {[]string{"span"}, map[string]any{"clusterPrefixLength": int64(20)}, "span cannot be added to or taken from a network"},
		"ipv6 where was none":      {[]string{"ipv6"}, map[string]any{"cidr": "fd42::/48"}, "ipv6 cannot be added"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := needServer(t)
			created := parseNetwork(t, fmt.Sprintf("metadata: {generateName: changed-}\n%s", spec()))
			created.SetName("")
			must(t, admin.Create(ctx, created))
			t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(ctx), created) })
			must(t, unstructured.SetNestedField(created.Object, test.value, append([]string{"spec"}, test.path...)...))
			err := admin.Update(ctx, created, client.DryRunAll)
			if (err == nil) != (test.sentence == "") || err != nil && !strings.Contains(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q", err, test.sentence)
			}
		})
	}
}

func TestStaticRangeGrows(t *testing.T) {
	for static, want := range map[string]string{
		"10.42.254.0/23": "", "10.42.255.0/24": "", "10.42.255.0/25": "ipv4.static can only be added or grow", "10.42.254.0/24": "ipv4.static can only be added or grow",
		"": "ipv4.static can only be added or grow",
	} {
		ctx := needServer(t)
		created := parseNetwork(t, "metadata: {generateName: static-}\nspec: {vni: 1, ipv4: {cidr: 10.42.0.0/16, static: 10.42.255.0/24}}")
		created.SetName("")
		must(t, admin.Create(ctx, created))
		t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(ctx), created) })
		unstructured.RemoveNestedField(created.Object, "spec", "ipv4", "static")
		if static != "" {
			must(t, unstructured.SetNestedField(created.Object, static, "spec", "ipv4", "static"))
		}
		err := admin.Update(ctx, created, client.DryRunAll)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", static, err, want)
		}
	}
}

func TestSpanIsImmutable(t *testing.T) {
	ctx := needServer(t)
	created := parseNetwork(t, fmt.Sprintf("metadata: {generateName: spanned-}\n%s", spec("span: {clusterPrefixLength: 20}")))
	created.SetName("")
	must(t, admin.Create(ctx, created))
	t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(ctx), created) })
	must(t, unstructured.SetNestedField(created.Object, "2us", "spec", "clock", "maxError"))
	if err := admin.Update(ctx, created, client.DryRunAll); err != nil {
		t.Errorf("another change is refused: %v", err)
	}
	unstructured.RemoveNestedField(created.Object, "spec", "span")
	if err := admin.Update(ctx, created, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "span cannot be added to or taken from a network") {
		t.Errorf("got %v", err)
	}
}
