// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// checkRefused checks the code and message of an error.
func checkRefused(t *testing.T, err error, code uint, want string) {
	t.Helper()
	var failure *types.Error
	if !errors.As(err, &failure) {
		t.Fatalf("got %v, want code %d", err, code)
	}
	if failure.Code != code || !strings.Contains(failure.Msg, want) || strings.Contains(failure.Msg, "\n") {
		t.Errorf("got code %d, %q\nwant code %d, %q", failure.Code, failure.Msg, code, want)
	}
}

// checkSentence checks the code and the whole message of an error.
func checkSentence(t *testing.T, err error, code uint, want string) {
	t.Helper()
	checkRefused(t, err, code, want)
	var failure *types.Error
	if errors.As(err, &failure) && failure.Msg != want {
		t.Errorf("unexpected output %q", failure.Msg)
	}
}

// expand replaces the placeholders of names that depend on the run.
func expand(sentence string, p *pod) string {
	return strings.NewReplacer("PORT", portOf(p), "IDENTITY", p.identity(), "CONTAINER", p.id).Replace(sentence)
}

// addDevice adds a device to the node for the duration of the test.
func (n *node) addDevice(t *testing.T, device netlink.Link) {
	t.Helper()
	must(t, n.Do(func() error { return netlink.LinkAdd(device) }))
	t.Cleanup(func() { _ = n.Do(func() error { return netlink.LinkDel(device) }) })
}

func linkAttrs(name string) netlink.LinkAttrs {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	return attributes
}

// TestFailedAddLeavesNothing tests all errors of a node, a pod and an IPAM plugin.
func TestFailedAddLeavesNothing(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	for name, test := range map[string]struct {
		// prepare breaks something. changes modify the configuration, at the attachment.
		prepare func(*testing.T, *pod)
		changes fields
		at      func(*libcni.RuntimeConf)
		code    uint
		want    string
	}{
		"no ktsnd": {changes: fields{"controlSocket": "/nowhere/control.sock"}, code: 11,
			want: "ktsnd does not answer on /nowhere/control.sock (no such file or directory); start it, or name its control socket in controlSocket"},
		"an uplink that is not there": {changes: fields{"controlSocket": "", "socketDir": nil, "uplink": "eno9"}, code: 100,
			want: "the uplink eno9 does not exist on this node; name the interface towards the other nodes"},
		"an uplink that is down": {changes: fields{"controlSocket": "", "socketDir": nil, "uplink": "sleepy"}, code: 100,
			prepare: func(t *testing.T, p *pod) { p.node.addDevice(t, &netlink.Bridge{LinkAttrs: linkAttrs("sleepy")}) },
			want:    "the uplink sleepy is down; set it up first"},
		"an uplink without address": {changes: fields{"controlSocket": "", "socketDir": nil, "uplink": "bare"}, code: 100,
			prepare: func(t *testing.T, p *pod) {
				attributes := linkAttrs("bare")
				attributes.Flags = net.FlagUp
				p.node.addDevice(t, &netlink.Bridge{LinkAttrs: attributes})
			},
			want: "the uplink bare has no IPv4 address for the tunnel; give it one first"},
		"an uplink that is not ktsnd's": {changes: fields{"uplink": "lo"}, code: 100,
			want: "the uplink lo is not the one that ktsnd sends on, which is phys0; leave it out, or start ktsnd with --interface lo"},
		"a local address that is not ktsnd's": {changes: fields{"localAddress": "192.0.2.9"}, code: 100,
			want: "the local address 192.0.2.9 is not the one that ktsnd sends from, which is 192.0.2.1; leave it out, or start ktsnd with --local-address 192.0.2.9"},
		"a local address that the uplink lacks": {changes: fields{"controlSocket": "", "socketDir": nil, "uplink": uplinkName, "localAddress": "192.0.2.9"},
			code: 100, want: "the uplink phys0 does not have the address 192.0.2.9; give one that it has"},
		"an MTU that does not fit": {changes: fields{"mtu": 1500}, code: 7,
			want: "an MTU of 1500 does not fit: the uplink phys0 carries 1500 bytes and the tunnel takes 50 of them; give at most 1450"},
		"a bridge that is something else": {code: 101,
			prepare: func(t *testing.T, p *pod) {
				p.node.addDevice(t, &netlink.Vxlan{LinkAttrs: linkAttrs(bridgeName), VxlanId: 7, Port: 4000})
			},
			want: "tsnbr42 exists and is a device of type vxlan, not a bridge; remove it, or name another bridge"},
		"a tunnel that is something else": {code: 101,
			prepare: func(t *testing.T, p *pod) { p.node.addDevice(t, &netlink.Bridge{LinkAttrs: linkAttrs(tunnelName)}) },
			want:    "tsnvx42 exists and is a device of type bridge, not VXLAN; remove it, or name another tunnel"},
		"a network that another device carries": {code: 101,
			prepare: func(t *testing.T, p *pod) {
				p.node.addDevice(t, &netlink.Vxlan{LinkAttrs: linkAttrs("flannel.42"), VxlanId: vni, Port: 4789, Learning: true})
			},
			want: "make VXLAN device tsnvx42: another one carries network 42 on UDP port 4789 already; name it as the tunnel, or choose another vni"},
		"an interface that the pod has": {at: func(at *libcni.RuntimeConf) { at.IfName = "lo" }, code: 102,
			want: "the pod has an interface lo already; give the attachment, or the label of the link, another name"},
		"a namespace that is not there": {at: func(at *libcni.RuntimeConf) { at.NetNS = "/run/netns/nowhere" }, code: 4,
			want: `CNI_NETNS: failed to Statfs "/run/netns/nowhere": no such file or directory; give the path of the container's network namespace`},
		"a namespace that is none": {at: func(at *libcni.RuntimeConf) { at.NetNS = "/etc/hostname" }, code: 4, want: "CNI_NETNS: "},
		"the node's own namespace": {at: func(at *libcni.RuntimeConf) { at.NetNS = lab.a.Path() }, code: 8,
			want: "CNI_NETNS: " + lab.a.Path() + " is the node's own network namespace; give the container's"},
		"an IPAM plugin that is not there": {changes: fields{"ipam": fields{"type": "whereabouts"}}, code: 7,
			want: "ipam: plugin whereabouts is not in CNI_PATH"},
		"an IPAM plugin that fails":         {changes: fields{"ipam": fields{"type": "host-local"}}, code: 999, want: "IPAM plugin host-local: no IP ranges specified"},
		"an IPAM plugin that gives nothing": {changes: fields{"ipam": fields{"type": "static"}}, code: 105, want: "IPAM plugin static: it gave no address"},
		"a pool that is exhausted": {changes: fields{"ipam": fields{"type": "host-local", "dataDir": filepath.Join(lab.a.dir, "ipam"), "subnet": "10.42.9.0/30"}}, code: 999,
			prepare: func(t *testing.T, p *pod) {
				used := filepath.Join(p.node.dir, "ipam", networkName, "10.42.9.2")
				must(t, os.MkdirAll(filepath.Dir(used), 0o755))
				must(t, os.WriteFile(used, []byte("somebody\r\neth0"), 0o644))
			},
			want: "IPAM plugin host-local: failed to allocate for range 0: no IP addresses available in range set: 10.42.9.1-10.42.9.2"},
		"a route that the pod has": {changes: fields{"ipam": fields{"type": "static", "addresses": []fields{{"address": "10.42.1.9/24"}}, "routes": []fields{{"dst": "10.42.1.0/24"}}}},
			code: 999, want: "add the route to 10.42.1.0/24 through tsn0: file exists: another interface of the pod has one; leave it out of ipam, or give it another priority"},
		"a gateway out of reach": {changes: fields{"ipam": fields{"type": "static", "addresses": []fields{{"address": "10.42.1.9/24"}}, "routes": []fields{{"dst": "10.50.0.0/16", "gw": "10.60.0.1"}}}},
			code: 999, want: "add the route to 10.50.0.0/16 through tsn0: network is unreachable"},
		"a sysctl that is not there": {changes: fields{"sysctl": fields{"net.ipv4.conf.IFNAME.nonsense": "1"}}, code: 7,
			want: "sysctl: the pod has no net.ipv4.conf.IFNAME.nonsense; see sysctl -a there"},
		"a sysctl with a bad value": {changes: fields{"sysctl": fields{"net.ipv4.conf.IFNAME.rp_filter": "perhaps"}}, code: 7,
			want: `sysctl: set net.ipv4.conf.IFNAME.rp_filter to "perhaps": invalid argument`},
		"a UID that is none": {at: func(at *libcni.RuntimeConf) { at.Args = [][2]string{{"K8S_POD_UID", "a/b"}} }, code: 4,
			want: `K8S_POD_UID in CNI_ARGS: "a/b" cannot be an identity; give 1 to 128 letters, digits, dots, dashes and underscores`},
		"a socket's folder that cannot be made": {changes: fields{"socketDir": "/proc/nowhere"}, code: 999, want: "make a folder for the pod's socket: "},
		"a socket of another process": {changes: fields{"socketDir": filepath.Join(lab.a.dir, "taken")}, code: 104,
			prepare: func(t *testing.T, p *pod) {
				path := filepath.Join(p.node.dir, "taken", p.identity(), "app.sock")
				must(t, os.MkdirAll(path, 0o755))
			},
			want: "ktsnd refused path: "},
	} {
		t.Run(name, func(t *testing.T) {
			pod := lab.a.newPod(t)
			if test.prepare != nil {
				test.prepare(t, pod)
			}
			before := lab.a.inventory(t, pod)
			at := pod.attachment()
			if test.at != nil {
				test.at(at)
			}
			_, err := lab.a.runtime.AddNetworkList(t.Context(), list(t, lab.a.config(test.changes)), at)
			checkRefused(t, err, test.code, test.want)
			checkSame(t, "after the refused ADD", before, lab.a.inventory(t, pod))
		})
	}
}

func TestRepeatedAddIsRejected(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	first, second := lab.a.newPod(t), lab.a.newPod(t)
	config := lab.a.config(fields{"ipam": static("10.42.1.9/16")})
	first.add(t, config)
	before := lab.a.inventory(t, first, second)
	configs := list(t, config)
	t.Run("the same attachment", func(t *testing.T) {
		_, err := lab.a.runtime.AddNetworkList(t.Context(), configs, first.attachment())
		checkRefused(t, err, 102, "container "+first.id+" is attached to network tsn as tsn0 already; call DEL first")
	})
	t.Run("the same attachment without its record", func(t *testing.T) {
		saved, err := os.ReadFile(glob(t, filepath.Join(lab.a.dir, "state", "attachments", "tsn", "*"))[0])
		must(t, err)
		lab.a.loseState(t)
		_, err = lab.a.runtime.AddNetworkList(t.Context(), configs, first.attachment())
		checkRefused(t, err, 102, "container "+first.id+" is attached to network tsn as tsn0 already; call DEL first")
		must(t, os.MkdirAll(filepath.Join(lab.a.dir, "state", "attachments", "tsn"), 0o700))
		must(t, os.WriteFile(filepath.Join(lab.a.dir, "state", "attachments", "tsn", first.id+":"+podIf), saved, 0o600))
		must(t, os.MkdirAll(filepath.Join(lab.a.dir, "state", "sockets", first.identity()), 0o700))
		for _, line := range before {
			if name, ok := strings.CutPrefix(line, "file /state/sockets/"); ok {
				must(t, os.WriteFile(filepath.Join(lab.a.dir, "state", "sockets", name), nil, 0o600))
			}
		}
	})
	t.Run("the same address", func(t *testing.T) {
		_, err := lab.a.runtime.AddNetworkList(t.Context(), configs, second.attachment())
		checkRefused(t, err, 103, fmt.Sprintf("hardware address 0a:58:0a:2a:01:09 belongs to container %s, interface tsn0, network tsn on this bridge already; give the pod another address", first.id))
	})
	t.Run("the same hardware address", func(t *testing.T) {
		other := lab.a.config(fields{"ipam": static("10.42.1.10/16"), "args": fields{"cni": fields{"mac": "0a:58:0a:2a:01:09"}}})
		_, err := lab.a.runtime.AddNetworkList(t.Context(), list(t, other), second.attachment())
		checkRefused(t, err, 103, "hardware address 0a:58:0a:2a:01:09 belongs to container "+first.id)
	})
	t.Run("another network on the same devices", func(t *testing.T) {
		other := lab.a.config(fields{"vni": 43, "bridge": bridgeName, "tunnel": tunnelName})
		_, err := lab.a.runtime.AddNetworkList(t.Context(), list(t, other), second.attachment())
		checkRefused(t, err, 101, "tsnvx42 carries network 42, not 43; give each network a bridge and tunnel of its own")
	})
	t.Run("a larger MTU than the network's", func(t *testing.T) {
		_, err := lab.a.runtime.AddNetworkList(t.Context(), list(t, lab.a.config(fields{"mtu": 1460})), second.attachment())
		checkRefused(t, err, 7, "an MTU of 1460 does not fit: tsnvx42 carries 1450 bytes")
	})
	checkSame(t, "after all", before, lab.a.inventory(t, first, second))
	if err := lab.a.runtime.CheckNetworkList(t.Context(), configs, first.attachment()); err != nil {
		t.Errorf("the first pod: %v", err)
	}
}

func TestHeldLockAsksToRetry(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	pod := lab.a.newPod(t)
	config := lab.a.config(fields{"lockTimeout": "200ms"})
	pod.add(t, config)
	file, err := os.Open(filepath.Join(lab.a.dir, "state", "lock"))
	must(t, err)
	defer file.Close()
	must(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	other := lab.a.newPod(t)
	before := lab.a.inventory(t, other)
	_, err = lab.a.runtime.AddNetworkList(t.Context(), list(t, config), other.attachment())
	checkRefused(t, err, 11, "state/lock was held by other processes for 200ms; try again later")
	checkSame(t, "after ADD", before, lab.a.inventory(t, other))
	err = lab.a.runtime.DelNetworkList(t.Context(), list(t, config), pod.attachment())
	checkRefused(t, err, 11, "state/lock was held by other processes for 200ms; try again later")
	must(t, unix.Flock(int(file.Fd()), unix.LOCK_UN))
	pod.del(t, config) // it completes the rest
	for _, line := range lab.a.inventory(t, pod) {
		if strings.Contains(line, "tsn") {
			t.Errorf("left: %s", line)
		}
	}
}

func TestInterruptedAddLeavesNothing(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	pod := lab.a.newPod(t)
	before := lab.a.inventory(t, pod)
	config := lab.a.config(fields{"lockTimeout": "1m"})
	must(t, os.MkdirAll(filepath.Join(lab.a.dir, "state"), 0o700))
	file, err := os.Create(filepath.Join(lab.a.dir, "state", "lock"))
	must(t, err)
	defer file.Close()
	must(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	ended := make(chan error)
	go func() {
		_, err := lab.a.runtime.AddNetworkList(t.Context(), list(t, config), pod.attachment())
		ended <- err
	}()
	interruptWhenRecorded(t, lab.a)
	checkRefused(t, <-ended, 11, "state/lock: terminated signal received")
	checkSame(t, "after it", before, lab.a.inventory(t, pod))
}

// interruptWhenRecorded sends SIGTERM to the tsn-cni that waits for the node's lock.
func interruptWhenRecorded(t *testing.T, n *node) {
	t.Helper()
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		for _, stat := range glob(t, "/proc/[0-9]*/exe") {
			if target, err := os.Readlink(stat); err != nil || target != program(t, "tsn-cni") {
				continue
			}
			var pid int
			_, err := fmt.Sscanf(stat, "/proc/%d/exe", &pid)
			must(t, err)
			for _, fd := range glob(t, fmt.Sprintf("/proc/%d/fd/*", pid)) {
				if target, _ := os.Readlink(fd); target == filepath.Join(n.dir, "state", "lock") {
					must(t, unix.Kill(pid, unix.SIGTERM))
					return nil
				}
			}
		}
		return errors.New("no tsn-cni waits for the lock")
	})
}

// clock reports the clock's quality to ktsnd and whether the network accepts it.
func (n *node) clock(t *testing.T, good bool, reason string, quality control.ClockQuality) {
	t.Helper()
	must(t, n.client.ClockSet(t.Context(), quality))
	must(t, n.client.NetworkClockSet(t.Context(), vni, &control.ClockNeed{
		MaxErrorNs: 1e6, OnLoss: control.OnLossHold, Good: good, Reason: reason,
	}))
}

func TestAddNeedsSynchronizedClock(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	config := lab.a.config(fields{"clock": true})
	good := control.ClockQuality{State: control.ClockSynchronized, ErrorBoundNs: 850, DriftPPB: 100}
	first := lab.a.newPod(t)
	long := "its error may be 12.3µs, says \"ptp4l\" \\ " + strings.Repeat("x", 512)
	long = long[:512]
	for _, step := range []struct {
		sentence string
		prepare  func()
		code     uint
		want     string
	}{
		{"nobody has said how it is", func() {}, 109,
			"the network requires a good clock, and ktsn-agent has not reported the node's clock for network 42 yet; see its log"},
		{"the agent does not find it good", func() { lab.a.clock(t, false, "ptp4l has ended; start it", good) }, 109,
			"the node's clock is not good enough for the network: ptp4l has ended; start it"},
		{"it was good once, and has drifted since", func() {
			lab.a.clock(t, true, "", control.ClockQuality{State: control.ClockSynchronized, ErrorBoundNs: 2e6, DriftPPB: 100})
		}, 109, "the node's clock is not good enough for the network: ktsn-agent has not reported it for so long that its error may be larger than 1ms; " +
			"check that ktsn-agent runs"},
		{"the reason is as long as an agent's may be, and of any letters", func() { lab.a.clock(t, false, long, good) }, 109,
			"the node's clock is not good enough for the network: " + long},
		{"it is good", func() { lab.a.clock(t, true, "", good) }, 0, ""},
	} {
		step.prepare()
		before := lab.a.inventory(t, first)
		errStatus := lab.a.runtime.GetStatusNetworkList(t.Context(), list(t, config))
		if step.code == 0 {
			first.add(t, config)
			must(t, errStatus)
			continue
		}
		_, err := lab.a.runtime.AddNetworkList(t.Context(), list(t, config), first.attachment())
		checkSentence(t, err, step.code, step.want)
		checkSentence(t, errStatus, 50, "pods cannot be attached: "+step.want)
		checkSame(t, step.sentence, before, lab.a.inventory(t, first))
	}
	t.Run("a lost clock rejects new pods and keeps existing ones", func(t *testing.T) {
		lab.a.clock(t, false, "ptp4l has ended; start it", good)
		_, err := lab.a.runtime.AddNetworkList(t.Context(), list(t, config), lab.a.newPod(t).attachment())
		checkRefused(t, err, 109, "ptp4l has ended; start it")
		checkSentence(t, lab.a.runtime.GetStatusNetworkList(t.Context(), list(t, config)), 51,
			"pods cannot be attached, and attached pods suffer: the node's clock is not good enough for the network: ptp4l has ended; start it")
		must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), first.attachment()))
		first.del(t, config)
	})
	t.Run("a network without a requirement accepts any clock", func(t *testing.T) {
		lab.a.newPod(t).add(t, lab.a.config(nil))
	})
}
