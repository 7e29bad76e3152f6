// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

const listedPorts = `{"headings":["_uuid","name","tag","trunks","external_ids","options","ofport"],"data":[
["@",["set",[]],["set",[]],["set",[]],["map",[]],["map",[]],["set",[]]],
[["uuid","1"],"ktsnd",["set",[]],["set",[42,43]],["map",[["kubernetsn","1"]]],["map",[["vhost-server-path","/run/v"]]],1],
[["uuid","2"],"tsnov42",42,["set",[]],["map",[]],["map",[]],-1]]}`

func TestParseTable(t *testing.T) {
	rows, err := parseTable([]byte(listedPorts))
	testlab.Must(t, err)
	ports := byName(rows)
	ktsnd, veth := ports["ktsnd"], ports["tsnov42"]
	if !ktsnd.ours() || veth.ours() {
		t.Error("the owner of a port is wrong")
	}
	if ktsnd.pairs("options")["vhost-server-path"] != "/run/v" || ktsnd.text("ofport") != "1" || veth.text("ofport") != "-1" {
		t.Errorf("got %v and %v", ktsnd, veth)
	}
	if !ktsnd.has([]string{"trunks=42,43"}) || ktsnd.has([]string{"trunks=42"}) || !veth.has([]string{"tag=42"}) || ktsnd.has([]string{"tag=42"}) {
		t.Error("VLANs are not compared")
	}
	if ids := ktsnd.references("_uuid"); !slices.Equal(ids, []string{"1"}) {
		t.Errorf("it is row %v", ids)
	}
	if _, err := parseTable([]byte("ovs-vsctl: no")); err == nil {
		t.Error("invalid output is accepted")
	}
}

// databaseAfter returns the database after the plan was applied, as far as the tests read it.
func databaseAfter(plan *Plan) *database {
	d := &database{root: row{"dpdk_version": "DPDK 22.11", "other_config": pairs("dpdk-init", "try"), "external_ids": pairs(madeSettings, "dpdk-init")},
		bridges: map[string]row{}, ports: map[string]row{}, interfaces: map[string]row{}, bridgeOf: map[string]string{}}
	for _, name := range []string{BridgeInternal, BridgePhysical} {
		d.bridges[name] = row{"datapath_type": "netdev", "external_ids": pairs(madeBy, "1")}
		d.ports[name], d.bridgeOf[name] = row{}, name
	}
	for number, wanted := range plan.ports() {
		port := row{"external_ids": pairs(madeBy, "1")}
		for _, setting := range wanted.settings {
			column, value, _ := strings.Cut(setting, "=")
			if column == "trunks" {
				port[column] = []any{"set", []any{42.0, 43.0}}
			} else {
				port[column] = value
			}
		}
		var options []string
		for key, value := range wanted.options {
			options = append(options, key, value)
		}
		d.ports[wanted.name], d.bridgeOf[wanted.name] = port, wanted.bridge
		d.interfaces[wanted.name] = row{"type": wanted.interfaceType, "options": pairs(options...), "ofport": float64(number + 9)}
	}
	return d
}

func pairs(texts ...string) any {
	var entries []any
	for i := 0; i+1 < len(texts); i += 2 {
		entries = append(entries, []any{texts[i], texts[i+1]})
	}
	return []any{"map", entries}
}

func TestChangesAreMinimal(t *testing.T) {
	plan := validPlan()
	have := databaseAfter(&plan)
	if changes := have.changes(&plan); len(changes) != 0 {
		t.Errorf("it would do %v", changes)
	}
	t.Run("changed plan", func(t *testing.T) {
		other := plan
		other.Ports, other.Networks = map[uint32]uint16{42: 8472}, []uint32{42}
		text := strings.Join(have.changes(&other), " ")
		for _, want := range []string{"del-port br-int vx42-c0000202", `options:dst_port="8472"`, "del-port br-int tsnov43", "trunks=42 "} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
	})
}

func TestMTUChanges(t *testing.T) {
	plan := validPlan()
	empty := &database{}
	if text := strings.Join(empty.mtuChanges(1450), " "); text != "-- set Interface br-int mtu_request=1450" {
		t.Errorf("of a new bridge: %q", text)
	}
	have := databaseAfter(&plan)
	if changes := have.mtuChanges(1450); len(changes) == 0 {
		t.Error("a bridge of ours without a fixed MTU is not changed")
	}
	have.interfaces[BridgeInternal] = row{"mtu_request": 1450.0}
	if changes := have.mtuChanges(1450); len(changes) != 0 {
		t.Errorf("repeated changes: %v", changes)
	}
	have.bridges[BridgeInternal] = row{"datapath_type": "netdev"}
	if changes := have.mtuChanges(1400); len(changes) != 0 {
		t.Errorf("a foreign bridge would be changed: %v", changes)
	}
}

func TestForeignPortStays(t *testing.T) {
	plan := validPlan()
	have := databaseAfter(&plan)
	have.ports["eth7"], have.bridgeOf["eth7"] = row{}, BridgeInternal
	text := strings.Join(have.removals(), " ")
	if strings.Contains(text, "eth7") || strings.Contains(text, "del-br br-int") {
		t.Errorf("it would do %s", text)
	}
	for _, want := range []string{"del-port br-int ktsnd", "del-br br-phy", "other_config dpdk-init"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}

func TestForeignSettingsStay(t *testing.T) {
	plan := validPlan()
	have := databaseAfter(&plan)
	have.root["other_config"] = pairs("dpdk-init", "true", "pmd-cpu-mask", "0x4", "per-port-memory", "false")
	if _, err := have.settings(&plan, 256); err == nil || !strings.Contains(err.Error(), "set pmd-cpu-mask of Open vSwitch to 0x4") {
		t.Errorf("it says %v", err)
	}
	plan.PMDCPUs = nil
	changes, err := have.settings(&plan, 256)
	text := strings.Join(changes, " ")
	if err != nil || strings.Contains(text, "per-port-memory=") || strings.Contains(text, "dpdk-init=") || !strings.Contains(text, `dpdk-socket-mem="256"`) {
		t.Errorf("it would do %s, %v", text, err)
	}
}

func TestCheckDatabase(t *testing.T) {
	plan := validPlan()
	for name, test := range map[string]struct {
		change func(*database)
		want   string
	}{
		"without DPDK": {func(d *database) { d.root["dpdk_version"] = "none" }, "without DPDK"},
		"a bridge of the kernel": {func(d *database) { d.bridges[BridgeInternal]["datapath_type"] = "" },
			"bridge br-int is there already and of the kernel's datapath"},
	} {
		t.Run(name, func(t *testing.T) {
			have := databaseAfter(&plan)
			test.change(have)
			if err := have.check(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func TestParseFlows(t *testing.T) {
	plan := validPlan()
	have := databaseAfter(&plan)
	wanted := have.wantedFlows(&plan)
	printed := "NXST_FLOW reply (xid=0x4):\n cookie=0x1, priority=0 actions=NORMAL\n cookie=0x6b74736e, " +
		strings.Join(wanted, "\n cookie=0x6b74736e, ") + "\n"
	if got := parseFlows(printed); !slices.Equal(got, wanted) || len(got) != 9 {
		t.Errorf("%v are read as %v", wanted, got)
	}
	for _, want := range []string{"in_port=10,dl_vlan=42", "in_port=11,dl_vlan=42"} { // each of ktsnd's ports
		if !strings.Contains(strings.Join(wanted, " "), want+" actions=strip_vlan,load:0xc->NXM_OF_IN_PORT[],NORMAL") {
			t.Errorf("flows are %v", wanted)
		}
	}
	announced := have.interfaces["vx43-c0000202"].text("ofport") + ",dl_dst=01:80:c2:00:00:0e,dl_type=0x88b5 actions=mod_dl_src:02:00:c0:00:02:02,output:" +
		have.interfaces["tsnov43"].text("ofport")
	if !slices.Contains(wanted, "priority=120,in_port="+announced) {
		t.Errorf("no flow from port %s in %v", announced, wanted)
	}
}
