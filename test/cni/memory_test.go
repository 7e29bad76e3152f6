// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// ktsn runs `ktsn` on the node and returns its output.
func (n *node) ktsn(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := n.tryKtsn(t, arguments...)
	if err != nil {
		t.Fatalf("ktsn %s: %v", strings.Join(arguments, " "), err)
	}
	return out
}

func (n *node) tryKtsn(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	control := ""
	if n.daemon != nil {
		control = n.control()
	}
	command := exec.Command(program(t, "ktsn"), append(arguments, "--control", control, "--state-dir", filepath.Join(n.dir, "state"))...)
	return outputOf(t, n, command)
}

func (n *node) loseState(t *testing.T) {
	t.Helper()
	must(t, os.RemoveAll(filepath.Join(n.dir, "state", "attachments")))
	must(t, os.RemoveAll(filepath.Join(n.dir, "state", "sockets")))
}

func TestDelAndGCWithoutRecords(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	before := lab.a.inventory(t, pod)
	config := lab.a.config(nil)
	for name, clean := range cleaners {
		t.Run(name, func(t *testing.T) {
			pod.add(t, config)
			lab.a.loseState(t)
			clean(t, pod, list(t, config))
			checkSame(t, "after "+name, before, lab.a.inventory(t, pod))
		})
	}
}

func TestTruncatedRecordIsIgnored(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	before := lab.a.inventory(t, pod)
	config := lab.a.config(nil)
	pod.add(t, config)
	record := glob(t, filepath.Join(lab.a.dir, "state", "attachments", "*", "*"))
	if len(record) != 1 {
		t.Fatalf("records are %q", record)
	}
	must(t, os.Truncate(record[0], 20))
	pod.del(t, config)
	checkSame(t, "after DEL", before, lab.a.inventory(t, pod))
}

// sources returns the source addresses of each pod.
func (n *node) sources(t *testing.T) map[string]control.Sources {
	t.Helper()
	endpoints, err := n.client.Endpoints(t.Context())
	must(t, err)
	all := map[string]control.Sources{}
	for _, endpoint := range endpoints {
		if endpoint.Sources != nil {
			all[endpoint.Identity] = *endpoint.Sources
		}
	}
	return all
}

func TestRestartedKtsndLearnsEndpoints(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lose bool
		want string
	}{
		"from the records":              {false, "registered 1 peers, 2 interfaces and 2 sockets with ktsnd; rebuilt 0 records\n"},
		"and when the records are lost": {true, "registered 1 peers, 2 interfaces and 0 sockets with ktsnd; rebuilt 2 records\n"},
	} {
		t.Run(name, func(t *testing.T) {
			lab := newServedLab(t)
			first, second := lab.a.newPod(t), lab.a.newPod(t)
			config := lab.a.config(nil)
			first.add(t, config)
			second.add(t, config)
			lab.a.ktsn(t, "node", "peers", "add", "--vni", "42", "192.0.2.2", "10.42.2.0/24")
			before := lab.a.inventory(t, first, second)
			sources := lab.a.sources(t)

			lab.a.stopDaemon(t)
			lab.a.startDaemon(t)
			if test.lose {
				lab.a.loseState(t)
			}
			configs := list(t, config)
			err := lab.a.runtime.CheckNetworkList(t.Context(), configs, first.attachment())
			testlab.CheckError(t, err, "ktsnd does not know interface tsn0 of uid-"+first.id)
			again := strings.Replace(test.want, "rebuilt 2", "rebuilt 0", 1)
			for _, want := range []string{test.want, again} { // repeating it changes nothing
				if out := lab.a.ktsn(t, "node", "restore"); out != want {
					t.Errorf("ktsn node restore reports %q, want %q", out, want)
				}
			}
			if err := lab.a.runtime.CheckNetworkList(t.Context(), configs, first.attachment()); err != nil {
				t.Errorf("CHECK after: %v", err)
			}
			peers, err := lab.a.client.Peers(t.Context())
			if err != nil || len(peers) != 1 {
				t.Errorf("ktsnd has peers %+v, %v", peers, err)
			}
			if after := lab.a.sources(t); !reflect.DeepEqual(sources, after) {
				t.Errorf("the pods may send from %+v, want %+v", after, sources)
			}
			if !test.lose {
				checkSame(t, "after it", before, lab.a.inventory(t, first, second))
			}
		})
	}
}

// TestRestoreSkipsRemovedPods restores records without network namespaces, as after a reboot of the node.
func TestRestoreSkipsRemovedPods(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	first, second := lab.a.newPod(t), lab.a.newPod(t)
	before := lab.a.inventory(t, first)
	config := lab.a.config(nil)
	first.add(t, config)
	second.add(t, config)
	lab.a.stopDaemon(t)
	must(t, second.Destroy())
	lab.a.startDaemon(t)
	want := "registered 0 peers, 1 interfaces and 1 sockets with ktsnd; rebuilt 0 records\n" +
		"skipped 1 interfaces of containers that have ended; the container runtime or ktsn-agent deletes them\n"
	if out := lab.a.ktsn(t, "node", "restore"); out != want {
		t.Errorf("ktsn node restore reports %q, want %q", out, want)
	}
	first.del(t, config)
	second.del(t, config)
	checkSame(t, "after DEL", before, lab.a.inventory(t, first))
}

func TestDelNeedsNeitherKtsndNorNamespace(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	before := lab.a.inventory(t)
	config := lab.a.config(nil)
	pod.add(t, config)
	lab.a.stopDaemon(t)
	must(t, pod.Destroy())
	for range 2 {
		pod.del(t, config)
	}
	gone := func(line string) bool { return strings.HasPrefix(line, "ktsnd") }
	checkSame(t, "after DEL", slices.DeleteFunc(before, gone), lab.a.inventory(t))
}

// TestLateDelKeepsSecondSandbox runs the commands of kubelet after the death of a pod's first sandbox: DEL, ADD for the
// second one, and DEL of the first one again at garbage collection.
func TestLateDelKeepsSecondSandbox(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	first := lab.a.newPod(t)
	second := first.newSandbox(t)
	config := lab.a.config(nil)
	first.add(t, config)
	must(t, first.Destroy())
	first.del(t, config)
	second.add(t, config)
	before := lab.a.inventory(t, second)
	first.del(t, config)
	checkSame(t, "after another DEL of the first", before, lab.a.inventory(t, second))
	second.del(t, config)
	if endpoints, err := lab.a.client.Endpoints(t.Context()); err != nil || len(endpoints) != 0 {
		t.Errorf("after DEL of the second ktsnd has %v, %v", endpoints, err)
	}
}

// TestForgottenSandbox attaches the second sandbox of a pod whose first one the runtime has forgotten: nobody deletes it, and its network
// namespace stays.
func TestForgottenSandbox(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	first := lab.a.newPod(t)
	second := first.newSandbox(t)
	config := lab.a.config(nil)
	before := lab.a.inventory(t, second)
	first.add(t, config)
	second.add(t, config)
	served := func(when string) {
		t.Helper()
		endpoints, err := lab.a.client.Endpoints(t.Context())
		if err != nil || len(endpoints) != 1 || endpoints[0].Netns != second.Path() {
			t.Errorf("%s ktsnd has %+v, %v", when, endpoints, err)
		}
	}
	served("after ADD of the second")
	lab.a.stopDaemon(t)
	lab.a.startDaemon(t)
	if output := lab.a.ktsn(t, "node", "restore"); !strings.HasPrefix(output, "registered 0 peers, 1 interfaces and 1 sockets") {
		t.Errorf("ktsn node restore reports %q", output)
	}
	served("after a restart")
	node, err := overlay.Open(filepath.Join(lab.a.dir, "state"), patience)
	must(t, err)
	defer node.Close()
	attached := within(t, lab.a, func() ([]attachment.Attached, error) { return attachment.List(filepath.Join(lab.a.dir, "state"), node) })
	if len(attached) != 2 {
		t.Fatalf("there are %+v", attached)
	}
	for _, entry := range attached {
		if entry.Gone || !entry.Present || entry.Ended != (entry.ContainerID == first.id) {
			t.Errorf("the list has %+v", entry)
		}
	}
	first.del(t, config) // what the agent does then
	served("after DEL of the first")
	if addresses := glob(t, filepath.Join(lab.a.dir, "ipam", networkName, "10.*")); len(addresses) != 1 {
		t.Errorf("after DEL of the first the addresses are %q", addresses)
	}
	second.del(t, config)
	checkSame(t, "after DEL of both", before, lab.a.inventory(t, second))
}

// podRecord is the part of a record about the device of a virtual machine.
type podRecord struct {
	Device    device.Device `json:"device"`
	Socket    string        `json:"socket"`
	AppSocket string        `json:"appSocket"`
	Capture   string        `json:"capture"`
}

func (p *pod) remembered(t *testing.T) (read podRecord) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.node.dir, "state", "attachments", networkName, p.id+":"+podIf))
	must(t, err)
	must(t, json.Unmarshal(text, &read))
	return read
}

func TestRebuiltRecordKeepsMachineDevice(t *testing.T) {
	folder := danFolder(t)
	for name, changes := range map[string]fields{
		"a tap":                             {"device": "tap", "device-queues": 3, "device-class": "pcp", "device-owner": 107, "capture": "All"},
		"vhost-user":                        {"device": "vhost-user", "device-queues": 2, "device-class": "queue", "device-owner": 107},
		"the interface that Kata takes":     {"device": "veth"},
		"a tap that Kata finds in a file":   {"device": "tap", "device-dan": folder},
		"vhost-user that it finds in one":   {"device": "vhost-user", "device-queues": 4, "device-dan": folder},
		"none, and what programs ask of it": {"capture": "All"},
	} {
		t.Run(name, func(t *testing.T) {
			lab := newServedLab(t)
			pod := lab.a.newPod(t)
			changes["createSocket"] = false
			config := lab.a.config(changes)
			before := kataInventory(t, folder, pod)
			pod.add(t, config)
			want, recorded := pod.remembered(t), kataInventory(t, folder, pod)
			if want.Device.Kind == "" {
				want.AppSocket = "" // not configured
			}
			lab.a.loseState(t)
			lab.a.ktsn(t, "node", "restore")
			if got := pod.remembered(t); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			checkSame(t, "once it is rebuilt", recorded, kataInventory(t, folder, pod))
			must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()))
			// The network configuration of GC does not contain the device of each pod.
			must(t, lab.a.gc(t, lab.a.forgetful(t, shipped(t)), list(t, lab.a.config(fields{"createSocket": false}))))
			checkSame(t, "after GC", before, kataInventory(t, folder, pod))
		})
	}
}

func TestGCWithoutRecordRemovesKataFile(t *testing.T) {
	lab := newServedLab(t)
	folder := danFolder(t)
	pod := lab.a.newPod(t)
	primary(t, pod)
	before := kataInventory(t, folder, pod)
	pod.add(t, lab.a.config(fields{"args": fields{"cni": fields{"device": "vhost-user", "device-dan": folder}}}))
	lab.a.loseState(t)
	must(t, lab.a.gc(t, lab.a.forgetful(t, shipped(t)), list(t, lab.a.config(nil))))
	checkSame(t, "after GC", before, kataInventory(t, folder, pod))
}
