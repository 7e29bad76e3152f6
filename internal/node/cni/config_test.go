// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// change is a configuration's field with a value; removed takes a field out.
type change map[string]any

// removed stands for no field.
type removed struct{}

// written is a configuration that works, with changes.
func written(t *testing.T, changes change) []byte {
	t.Helper()
	config := map[string]any{"cniVersion": "1.1.0", "name": "tsn", "type": "tsn-cni", "vni": 42,
		"ipam": map[string]any{"type": "host-local", "subnet": "10.42.1.0/24", "anything": "goes"}}
	for name, value := range changes {
		if _, gone := value.(removed); gone {
			delete(config, name)
		} else {
			config[name] = value
		}
	}
	text, err := json.Marshal(config)
	testlab.Must(t, err)
	return text
}

func TestParseConfigErrors(t *testing.T) {
	schema := compileSchema(t)
	for name, test := range map[string]struct {
		changes change
		want    string
		// beyond: a schema cannot say it.
		beyond bool
	}{
		"no vni":              {change{"vni": removed{}}, "vni: missing; give the VXLAN network identifier, 1 to 16777215", false},
		"vni 0":               {change{"vni": 0}, "vni: 0 is out of range; give 1 to 16777215", false},
		"vni too large":       {change{"vni": 16777216}, "vni: 16777216 is out of range; give 1 to 16777215", false},
		"vni as text":         {change{"vni": "42"}, `vni: "42" is not a number from 1 to 16777215`, false},
		"vni with a fraction": {change{"vni": 4.2}, "vni: 4.2 is not a number from 1 to 16777215", false},
		"vni null":            {change{"vni": nil}, "vni: null is not a number from 1 to 16777215", false},
		"no ipam":             {change{"ipam": removed{}}, `ipam: missing, or without type; name an IPAM plugin, such as {"type": "host-local", ...}`, false},
		"ipam without type":   {change{"ipam": change{}}, `ipam: missing, or without type; name an IPAM plugin, such as {"type": "host-local", ...}`, false},
		"ipam as text":        {change{"ipam": "host-local"}, "ipam: a string stands where there must be an object", false},
		"an unknown field":    {change{"vnid": 42}, "vnid: unknown field; docs/reference/tsn-cni.md lists those that there are", false},
		"a field in capitals": {change{"VNI": 42}, "VNI: unknown field; docs/reference/tsn-cni.md lists those that there are", false},
		"a bridge plugin's field": {change{"isGateway": true},
			"isGateway: unknown field; docs/reference/tsn-cni.md lists those that there are", false},
		"a bridge name too long": {change{"bridge": "a-bridge-too-far"},
			`bridge: "a-bridge-too-far" is no name for an interface; give 1 to 15 characters without slash, colon and space`, false},
		"a bridge name with a slash": {change{"bridge": "br/0"},
			`bridge: "br/0" is no name for an interface; give 1 to 15 characters without slash, colon and space`, false},
		"an empty tunnel name": {change{"tunnel": ""},
			`tunnel: "" is no name for an interface; give 1 to 15 characters without slash, colon and space`, false},
		"a tunnel named like the bridge": {change{"tunnel": "tsnbr42"}, "tunnel: tsnbr42 is the bridge's name, too; give them different names", true},
		"an uplink that is a number":     {change{"uplink": 1}, "uplink: 1 is not the name of an interface", false},
		"a local address of IPv6": {change{"localAddress": "2001:db8::1"},
			`localAddress: "2001:db8::1" is no IPv4 address; give the tunnel's source address on the uplink`, false},
		"a local address with a prefix": {change{"localAddress": "192.0.2.1/24"},
			`localAddress: "192.0.2.1/24" is no IPv4 address; give the tunnel's source address on the uplink`, false},
		"cards as text": {change{"cards": "0000:02:00.0"}, `cards: "0000:02:00.0" is not a list of PCI addresses`, false},
		"a card that is none": {change{"cards": []string{"eth0"}},
			"cards: \"eth0\" is no PCI address; give one as `lspci -D` shows it, such as 0000:02:00.0", false},
		"namespaces of cards as text": {change{"cardNamespaces": "control"}, `cardNamespaces: "control" is not a list of namespaces`, false},
		"port 0":                      {change{"port": 0}, "port: 0 is out of range; give 1 to 65535", false},
		"an MTU too small":            {change{"mtu": 1000}, "mtu: 1000 is too small; give at least 1280, or 0 for what the uplink allows", false},
		"an MTU too large":            {change{"mtu": 70000}, "mtu: 70000 is out of range; give 0 to 65535", false},
		"a negative MTU":              {change{"mtu": -1}, "mtu: -1 is out of range; give 0 to 65535", false},
		"a control socket without a slash": {change{"controlSocket": "control.sock"},
			`controlSocket: "control.sock" is no absolute path; begin it with /`, false},
		"no ktsnd and no uplink": {change{"controlSocket": ""},
			"uplink: missing; without ktsnd (controlSocket is empty) name the interface towards the other nodes", true},
		"no ktsnd and a socket folder": {change{"controlSocket": "", "uplink": "eno1", "socketDir": "/run/ktsn/pods"},
			"socketDir: there is no ktsnd to listen there (controlSocket is empty); leave it out", true},
		"an empty socket folder":       {change{"socketDir": ""}, `socketDir: "" is no absolute path; begin it with /`, false},
		"createSocket as text":         {change{"createSocket": "yes"}, `createSocket: "yes" is not true or false`, false},
		"a relative state directory":   {change{"stateDir": "state"}, `stateDir: "state" is no absolute path; begin it with /`, false},
		"a lock timeout without unit":  {change{"lockTimeout": "10"}, `lockTimeout: "10" is no duration up to one hour; give one such as "10s" or "500ms"`, false},
		"a lock timeout as number":     {change{"lockTimeout": 10}, `lockTimeout: 10 is not a duration such as "10s"`, false},
		"a lock timeout of days":       {change{"lockTimeout": "25h"}, `lockTimeout: "25h" is no duration up to one hour; give one such as "10s" or "500ms"`, true},
		"a sysctl of the whole kernel": {change{"sysctl": change{"kernel.panic": "1"}}, `sysctl: "kernel.panic" is not the network namespace's; give names such as net.ipv4.conf.IFNAME.rp_filter`, false},
		"a sysctl that climbs": {change{"sysctl": change{"net..kernel.panic": "1"}},
			`sysctl: "net..kernel.panic" is not the network namespace's; give names such as net.ipv4.conf.IFNAME.rp_filter`, true},
		"something else of what is unseen":  {change{"unseen": "let"}, `unseen: "let" is neither; give "drop", or "pass" to let datagrams out early that libktsn.so does not see`, false},
		"something else of it for the pod":  {change{"args": change{"cni": change{"unseen": 1}}}, `args.cni.unseen: 1 is not "drop" or "pass"`, false},
		"a sysctl that is a number":         {change{"sysctl": change{"net.core.somaxconn": 1}}, `sysctl: {"net.core.somaxconn":1} is not an object of strings`, false},
		"source addresses that are no list": {change{"sourceAddresses": "10.43.0.0/16"}, `sourceAddresses: "10.43.0.0/16" is not a list of IP subnets`, false},
		"too many source addresses": {change{"sourceAddresses": slices.Repeat([]string{"::/0"}, 15)},
			`sourceAddresses: has 15 subnets; give at most 14`, false},
		"a source address without its length": {change{"sourceAddresses": []string{"10.43.0.1"}},
			`sourceAddresses: "10.43.0.1" is no IP subnet; give one such as 10.43.0.0/16 or fd43::/64, with no bits set behind the prefix`, false},
		"a source subnet with bits behind the prefix": {change{"sourceAddresses": []string{"10.43.0.1/16"}},
			`sourceAddresses: "10.43.0.1/16" is no IP subnet; give one such as 10.43.0.0/16 or fd43::/64, with no bits set behind the prefix`, true},
		"grants that are a list": {change{"grants": []string{"all"}}, `grants: ["all"] is not an object with priorityMax or priorityCodePoint`, false},
		"a grant that there is not": {change{"grants": change{"vlan": 7}},
			`grants: vlan: there is no such grant; give priorityMax or priorityCodePoint`, false},
		"a priority that nobody needs a grant for": {change{"grants": change{"priorityMax": 5}}, `grants: priorityMax: 5 is out of range; give 6 to 15`, false},
		"a priority that there is not":             {change{"grants": change{"priorityMax": 16}}, `grants: priorityMax: 16 is out of range; give 6 to 15`, false},
		"a PCP that is a number":                   {change{"grants": change{"priorityCodePoint": 1}}, `grants: priorityCodePoint: 1 is not true or false`, false},
		"a MAC that is a number":                   {change{"runtimeConfig": change{"mac": 1}}, "runtimeConfig.mac: a number stands where there must be a string", false},
		"something else to capture":                {change{"capture": "timed"}, `capture: "timed" is no mode of capture; give "None", "Timed" or "All"`, false},
		"a number to capture":                      {change{"capture": 1}, `capture: 1 is not "None", "Timed" or "All"`, false},
		"something else to capture of a pod":       {change{"args": change{"cni": change{"capture": "all"}}}, `args.cni.capture: "all" is no mode of capture; give "None", "Timed" or "All"`, false},
		"to capture what shall leave early": {change{"capture": "All", "unseen": "pass"},
			`capture: with "All" nothing is left that "unseen": "pass" could let leave early; leave out one of them`, true},
		"to capture without ktsnd": {change{"capture": "Timed", "controlSocket": "", "uplink": "eno1"},
			"capture: there is no ktsnd to send what is captured (controlSocket is empty); leave it out", true},
		"receive that is a word":        {change{"receive": "ring"}, `receive: "ring" is not an object such as {"redirect": true, "rings": true}`, false},
		"receive of another kind":       {change{"receive": change{"xdp": true}}, "receive: unknown field xdp; there are redirect and rings", false},
		"receive rings that are a word": {change{"receive": change{"rings": "all"}}, `receive: rings: "all" is not true or false`, false},
		"another receive of a pod": {change{"args": change{"cni": change{"receive": true}}},
			`args.cni.receive: true is not "ring"; leave it out for the kernel's path`, false},
		"receive rings without ktsnd": {change{"receive": change{"rings": true}, "controlSocket": "", "uplink": "eno1"},
			"receive.rings: there is no ktsnd that makes receive rings (controlSocket is empty); leave it out", true},
		"a clock that is a word": {change{"clock": "good"}, `clock: "good" is not true or false`, false},
		"a good clock without ktsnd": {change{"clock": true, "controlSocket": "", "uplink": "eno1"},
			"clock: there is no ktsnd that knows how good the clock is (controlSocket is empty); leave it out", true},
		"a device that is no text":            {change{"device": 1}, `device: 1 is not a text`, false},
		"queues of a device that are a text":  {change{"device": "tap", "device-queues": "4"}, `device-queues: "4" is not a number`, false},
		"an owner of a pod's that is a text":  {change{"args": change{"cni": change{"device-owner": "qemu"}}}, `args.cni.device-owner: "qemu" is not a number`, false},
		"a class of a pod's that is a number": {change{"args": change{"cni": change{"device-class": 1}}}, `args.cni.device-class: 1 is not a text`, false},
		"a prevResult of no version": {change{"prevResult": change{"cniVersion": "9.9"}},
			`prevResult: could not parse prevResult: result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is "9.9"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			text := written(t, test.changes)
			_, err := ParseConfig(text)
			var refused *types.Error
			if !errors.As(err, &refused) || refused.Code != types.ErrInvalidNetworkConfig {
				t.Fatalf("got %v, want an error of code 7", err)
			}
			if err.Error() != test.want {
				t.Errorf("it says\n%s, want\n%s", err, test.want)
			}
			if errSchema := validate(t, schema, text); (errSchema == nil) != test.beyond {
				t.Errorf("the schema says %v", errSchema)
			}
		})
	}
}

func TestParseConfigNoObject(t *testing.T) {
	for _, text := range []string{"", "[]", "42", `{"vni":`, `{"vni":42}{}`} {
		_, err := ParseConfig([]byte(text))
		var refused *types.Error
		if !errors.As(err, &refused) || refused.Code != types.ErrDecodingFailure {
			t.Errorf("%q: %v, want an error of code 6", text, err)
		}
	}
}

func TestParseConfigStandardFields(t *testing.T) {
	schema := compileSchema(t)
	for name, changes := range map[string]change{
		"of the specification":       {"cniVersions": []string{"1.0.0", "1.1.0"}, "dns": change{"nameservers": []string{"192.0.2.53"}}, "capabilities": change{"mac": true}},
		"of GC":                      {"cni.dev/valid-attachments": []any{}, "cni.dev/attachments": []any{}},
		"of libcni":                  {"disableCheck": true, "disableGC": true, "disableWhatever": 1},
		"of runtimes":                {"args": change{"cni": change{"mac": "0a:58:0a:2a:01:02", "ips": []string{"10.42.1.9"}}, "other": 1}, "runtimeConfig": change{"ips": []string{"10.42.1.9/24"}, "CNIDeviceInfoFile": "/x"}},
		"of the specification later": {"cni.dev/anything": change{}},
		"of a chain":                 {"prevResult": change{"cniVersion": "1.1.0", "interfaces": []any{}}},
	} {
		t.Run(name, func(t *testing.T) {
			text := written(t, changes)
			if _, err := ParseConfig(text); err != nil {
				t.Error(err)
			}
			if err := validate(t, schema, text); err != nil {
				t.Errorf("the schema: %v", err)
			}
		})
	}
}

func TestParseConfigDefaults(t *testing.T) {
	config, err := ParseConfig(written(t, nil))
	testlab.Must(t, err)
	want := overlay.Network{VNI: 42, Bridge: "tsnbr42", Tunnel: "tsnvx42", Port: 4789}
	if config.Overlay != want {
		t.Errorf("the network is %+v, want %+v", config.Overlay, want)
	}
	if config.ControlSocket != "/run/ktsn/control.sock" || config.StateDir != "/var/lib/cni/tsn-cni" ||
		config.LockTimeout != 10*time.Second || config.SocketDir != "" || !config.CreateSocket {
		t.Errorf("the rest is %+v", config)
	}
}

func TestParseConfig(t *testing.T) {
	text := written(t, change{"bridge": "br0", "tunnel": "vx0", "uplink": "eno1", "localAddress": "192.0.2.1", "port": 8472,
		"mtu": 1400, "controlSocket": "/c", "socketDir": "/s", "createSocket": false, "stateDir": "/d", "lockTimeout": "1m30s",
		"sysctl": change{"net.ipv4.conf.IFNAME.rp_filter": "0"}, "unseen": "pass", "capture": "None", "clock": true, "receive": change{"redirect": true, "rings": true},
		"sourceAddresses": []string{"10.43.0.0/16", "fd43::/64"}, "grants": change{"priorityCodePoint": true}, "runtimeConfig": change{"mac": "02:00:00:00:00:01"},
		"args": change{"cni": change{"mac": "02:00:00:00:00:02"}}})
	config, err := ParseConfig(text)
	testlab.Must(t, err)
	want := overlay.Network{VNI: 42, Bridge: "br0", Tunnel: "vx0", Port: 8472, MTU: 1400, Uplink: "eno1",
		LocalAddress: netip.MustParseAddr("192.0.2.1")}
	if config.Overlay != want {
		t.Errorf("the network is %+v, want %+v", config.Overlay, want)
	}
	if config.ControlSocket != "/c" || config.SocketDir != "/s" || config.CreateSocket || config.StateDir != "/d" ||
		config.LockTimeout != 90*time.Second || config.Unseen != "pass" || !config.NeedsClock || config.Receive != (attachment.Receive{Redirect: true}) || !config.RingsOffered || config.MAC != "02:00:00:00:00:01" ||
		!reflect.DeepEqual(config.SourceAddresses, []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16"), netip.MustParsePrefix("fd43::/64")}) ||
		!reflect.DeepEqual(config.Grants, &control.Grants{PriorityMax: 6, PriorityCodePoint: true}) ||
		!reflect.DeepEqual(config.Sysctls, map[string]string{"net.ipv4.conf.IFNAME.rp_filter": "0"}) {
		t.Errorf("the rest is %+v", config)
	}
	if err := validate(t, compileSchema(t), text); err != nil {
		t.Errorf("the schema: %v", err)
	}
}

func TestArguments(t *testing.T) {
	for name, test := range map[string]struct {
		args, containerID     string
		changes               change
		identity, mac, refuse string
	}{
		"the pod's UID":                      {"IgnoreUnknown=1;K8S_POD_UID=8b1c-77;FOO=bar", "c1", nil, "8b1c-77", "", ""},
		"else the container's id":            {"", "c1", nil, "c1", "", ""},
		"an empty UID":                       {"K8S_POD_UID=", "c1", nil, "c1", "", ""},
		"a UID that ktsnd would refuse":      {"K8S_POD_UID=a/b", "c1", nil, "", "", `K8S_POD_UID in CNI_ARGS: "a/b" cannot be an identity`},
		"an id that ktsnd would refuse":      {"", strings.Repeat("x", 129), nil, "", "", "CNI_CONTAINERID: "},
		"a pair without a value":             {"K8S_POD_UID", "c1", nil, "", "", `CNI_ARGS: ARGS: invalid pair "K8S_POD_UID"`},
		"a key that nobody knows":            {"FOO=bar", "c1", nil, "", "", `CNI_ARGS: ARGS: unknown args ["FOO=bar"]`},
		"a MAC":                              {"MAC=02:00:00:00:00:03", "c1", nil, "c1", "02:00:00:00:00:03", ""},
		"a MAC that the configuration beats": {"MAC=02:00:00:00:00:03", "c1", change{"args": change{"cni": change{"mac": "02:00:00:00:00:02"}}}, "c1", "02:00:00:00:00:02", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := newRequest(&skel.CmdArgs{ContainerID: test.containerID, IfName: "tsn0", Args: test.args, StdinData: written(t, test.changes)})
			if test.refuse != "" {
				var refused *types.Error
				if !errors.As(err, &refused) || refused.Code != types.ErrInvalidEnvironmentVariables || !strings.HasPrefix(refused.Msg, test.refuse) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || r.Identity != test.identity || r.MAC != test.mac {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

func TestDevicePrecedence(t *testing.T) {
	tap := device.Device{Kind: "tap", Queues: 1, Class: "record"}
	several := device.Device{Kind: "tap", Queues: 4, Class: "queue", Owner: 107}
	for name, test := range map[string]struct {
		changes change
		args    string
		want    device.Device
		refusal string
	}{
		"none":                                  {nil, "", device.Device{}, ""},
		"of the network":                        {change{"device": "tap", "device-queues": 4, "device-class": "queue", "device-owner": 107}, "", several, ""},
		"of CNI_ARGS":                           {nil, "DEVICE=tap;DEVICE_QUEUES=4;DEVICE_CLASS=queue;DEVICE_OWNER=107", several, ""},
		"of the pod":                            {change{"args": change{"cni": change{"device": "tap", "device-queues": 4, "device-class": "queue", "device-owner": 107}}}, "", several, ""},
		"the pod's before":                      {change{"device": "vhost-user", "args": change{"cni": change{"device": "tap"}}}, "DEVICE=vhost-user", tap, ""},
		"that of CNI_ARGS before the network's": {change{"device": "vhost-user"}, "DEVICE=tap", tap, ""},
		"partly from each":                      {change{"device": "tap", "device-queues": 4, "args": change{"cni": change{"device-class": "queue"}}}, "DEVICE_OWNER=107", several, ""},
		"another":                               {change{"device": "macvtap"}, "", device.Device{}, `device is "macvtap"; give tap, vhost-user, veth or vfio`},
		"a card without a runtime that gets it": {change{"device": "vfio"}, "", device.Device{}, "device is vfio, and no runtime finds the card: it is for pods of Kata that have their devices from a file (device-dan)"},
		"too many queues":                       {nil, "DEVICE=tap;DEVICE_QUEUES=9", device.Device{}, `device-queues is "9"; give a number from 1 to 8`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := newRequest(&skel.CmdArgs{ContainerID: "c1", IfName: "tsn0", Args: test.args, StdinData: written(t, test.changes)})
			if test.refusal != "" {
				if err == nil || err.Error() != test.refusal {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || r.Device != test.want {
				t.Errorf("got %+v, %v; want %+v", r, err, test.want)
			}
		})
	}
}

func TestTapName(t *testing.T) {
	r, err := newRequest(&skel.CmdArgs{ContainerID: "c1", IfName: "thirteen-char", StdinData: written(t, change{"device": "tap"})})
	testlab.Must(t, err)
	err = r.checkAttachment()
	var refused *types.Error
	if !errors.As(err, &refused) || refused.Code != types.ErrInvalidEnvironmentVariables ||
		!strings.HasPrefix(refused.Msg, "CNI_IFNAME: thirteen-char is too long a name for an interface with a tap: the tap would be tapthirteen-char") {
		t.Errorf("got %v", err)
	}
}

func TestCheckAttachment(t *testing.T) {
	for name, test := range map[string]struct {
		containerID string
		changes     change
		code        uint
		want        string
	}{
		"a multicast MAC":       {"c1", change{"runtimeConfig": change{"mac": "01:00:5e:00:00:01"}}, 7, `mac: "01:00:5e:00:00:01" is no hardware address for an interface; give one such as 0a:58:0a:2a:01:02`},
		"a MAC of eight octets": {"c1", change{"runtimeConfig": change{"mac": "02:00:5e:00:00:01:02:03"}}, 7, `mac: "02:00:5e:00:00:01:02:03" is no hardware address for an interface; give one such as 0a:58:0a:2a:01:02`},
		"a socket's path":       {"c1", change{"socketDir": "/" + strings.Repeat("x", 95)}, 7, "socketDir: /" + strings.Repeat("x", 95) + "/c1/app.sock has 108 characters, a socket's path at most 107; choose a shorter folder"},
		"names that do not fit": {strings.Repeat("x", 128), change{"name": strings.Repeat("n", 100)}, 4, "CNI_CONTAINERID: the names of network, container, interface and identity have 364 bytes together; at most 244 fit"},
		"a class by queue where nothing goes through ktsnd": {"c1", change{"device": "tap", "device-queues": 2, "device-class": "queue"}, 7,
			`device-class: the class of a frame is by queue only where all frames go through ktsnd; have the network capture "All", or leave the field out`},
		"vhost-user without ktsnd": {"c1", change{"device": "vhost-user", "controlSocket": "", "uplink": "eno1"}, 7,
			"device: with vhost-user all frames go through ktsnd, and there is none (controlSocket is empty); give tap, or a node with ktsnd"},
		"vhost-user without a folder": {"c1", change{"device": "vhost-user"}, 7, "socketDir: missing; the socket of vhost-user stands in the pod's folder there"},
		"receive rings of a machine": {"c1", change{"device": "vhost-user", "args": change{"cni": change{"receive": "ring"}}}, 7,
			"args.cni.receive: receive rings are for sockets of the pod's programs, and the interface is a virtual machine's (device); leave one of them out"},
		"everything else passes": {"c1", nil, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := newRequest(&skel.CmdArgs{ContainerID: test.containerID, IfName: "tsn0", StdinData: written(t, test.changes)})
			testlab.Must(t, err)
			err = r.checkAttachment()
			var refused *types.Error
			if test.code == 0 {
				if err != nil {
					t.Error(err)
				}
			} else if !errors.As(err, &refused) || refused.Code != test.code || refused.Msg != test.want {
				t.Errorf("got\n%v, want\n%s", err, test.want)
			}
		})
	}
}

const schemaFile = "../../../docs/reference/tsn-cni.schema.json"

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile(schemaFile)
	testlab.Must(t, err)
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	testlab.Must(t, err)
	return schema.Validate(value)
}

// TestSchemaAndPageFields keeps the three together.
func TestSchemaAndPageFields(t *testing.T) {
	text, err := os.ReadFile(schemaFile)
	testlab.Must(t, err)
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	testlab.Must(t, json.Unmarshal(text, &schema))
	inCode := slices.Concat(slices.Collect(maps.Keys(fields)), standardFields)
	if got, want := slices.Sorted(maps.Keys(schema.Properties)), slices.Sorted(slices.Values(inCode)); !slices.Equal(got, want) {
		t.Errorf("the schema has %q, the code %q", got, want)
	}
	page, err := os.ReadFile("../../../docs/reference/tsn-cni.md")
	testlab.Must(t, err)
	for _, name := range inCode {
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("docs/reference/tsn-cni.md has no row for %s", name)
		}
	}
}

func TestPodCannotReduceCapture(t *testing.T) {
	for name, test := range map[string]struct {
		network, asked change
		refused        bool
	}{
		"what has a time":          {change{"capture": "All"}, change{"capture": "Timed"}, true},
		"nothing":                  {change{"capture": "All"}, change{"capture": "None"}, true},
		"nothing, in capitals":     {change{"capture": "All"}, change{"Capture": "None"}, true},
		"nothing, in both":         {change{"capture": "All"}, change{"Capture": "All", "capture": "None"}, true},
		"everything, in both":      {change{"capture": "All"}, change{"Capture": "None", "capture": "All"}, false},
		"to leave early":           {change{"capture": "All"}, change{"unseen": "pass"}, true},
		"everything":               {change{"capture": "All"}, change{"unseen": "drop", "capture": "All"}, false},
		"to leave early elsewhere": {change{"capture": "Timed"}, change{"unseen": "pass"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			test.network["args"] = change{"cni": test.asked}
			// Reading it is no error, because it is read to detach the pod as well.
			config, err := ParseConfig(written(t, test.network))
			testlab.Must(t, err)
			asked := &request{Config: config}
			asked.Attachment = overlay.Attachment{Network: "tsn", ContainerID: "c1", Interface: "tsn0"}
			err = asked.checkAttachment()
			if refused := err != nil && strings.Contains(err.Error(), `the network captures "All", and no pod of it less`); refused != test.refused {
				t.Errorf("it said %v", err)
			}
		})
	}
}

func TestCaptureMode(t *testing.T) {
	ofPod := func(fields change) change { return change{"cni": fields} }
	for name, test := range map[string]struct {
		changes change
		capture capture.Mode
		unseen  string
	}{
		"by default":                               {nil, capture.Timed, attachment.UnseenDrop},
		"without ktsnd":                            {change{"controlSocket": "", "uplink": "eno1"}, capture.None, attachment.UnseenDrop},
		"what may leave early":                     {change{"unseen": "pass"}, capture.None, attachment.UnseenPass},
		"what may not":                             {change{"unseen": "drop"}, capture.Timed, attachment.UnseenDrop},
		"nothing, as asked for":                    {change{"capture": "None"}, capture.None, attachment.UnseenDrop},
		"everything":                               {change{"capture": "All"}, capture.All, attachment.UnseenDrop},
		"everything of this pod":                   {change{"args": ofPod(change{"capture": "All"})}, capture.All, attachment.UnseenDrop},
		"nothing of this pod":                      {change{"capture": "Timed", "args": ofPod(change{"capture": "None"})}, capture.None, attachment.UnseenDrop},
		"a pod whose messages may leave early":     {change{"capture": "Timed", "args": ofPod(change{"unseen": "pass"})}, capture.None, attachment.UnseenPass},
		"a pod that asks for what all pods have":   {change{"capture": "All", "args": ofPod(change{"unseen": "drop", "capture": "All"})}, capture.All, attachment.UnseenDrop},
		"a pod whose messages may not":             {change{"unseen": "pass", "args": ofPod(change{"unseen": "drop"})}, capture.Timed, attachment.UnseenDrop},
		"a pod on a network that lets them":        {change{"unseen": "pass", "args": ofPod(change{"capture": "Timed"})}, capture.Timed, attachment.UnseenDrop},
		"a pod of which nothing is, on such a one": {change{"unseen": "pass", "args": ofPod(change{"capture": "None"})}, capture.None, attachment.UnseenPass},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := ParseConfig(written(t, test.changes))
			if err != nil || config.Capture != test.capture || config.Unseen != test.unseen {
				t.Errorf("read %+v, %v; want %v and %s", config, err, test.capture, test.unseen)
			}
		})
	}
}

func TestCardNamespaces(t *testing.T) {
	const other = "and pods of namespace \"other\" may not have the network's cards"
	for name, test := range map[string]struct {
		allowed []string
		args    string
		want    string
	}{
		"one of them":        {[]string{"control", "motion"}, "IgnoreUnknown=1;K8S_POD_NAMESPACE=motion", ""},
		"another":            {[]string{"control"}, "IgnoreUnknown=1;K8S_POD_NAMESPACE=other", other},
		"none is allowed":    {[]string{}, "IgnoreUnknown=1;K8S_POD_NAMESPACE=other", other},
		"without Kubernetes": {[]string{"control"}, "", `pods of namespace "" may not`},
		"nothing is said":    {nil, "IgnoreUnknown=1;K8S_POD_NAMESPACE=other", ""},
	} {
		spec := attachment.Spec{Record: attachment.Record{Args: test.args}, Cards: []string{"0000:01:00.0"}}
		r := &request{Config: &Config{Spec: spec, CardNamespaces: test.allowed}}
		if err := r.checkVFIO(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
