// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
)

// leftIn are the files that a state directory has, but for the lock and the library's own.
func leftIn(t *testing.T, stateDir string) (left []string) {
	t.Helper()
	for _, pattern := range []string{"*.json*", "sockets/*"} {
		paths, err := filepath.Glob(filepath.Join(stateDir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, paths...)
	}
	return left
}

func TestGuestsFailedAttachLeavesNothing(t *testing.T) {
	c := newCaptured(t, capture.Timed)
	m := c.attachMachine(t)
	before := c.linksOfNode(t)
	stateDir := t.TempDir()
	again := []string{"attach", machineName, "--network", m.Network, "--conf-dir", m.ConfDir, "--state-dir", stateDir}
	plugins := []string{"--plugin-dir", m.PluginDirs[0]}
	for part, arguments := range map[string][]string{
		"needs the plugin tsn-cni":                          append(slices.Clone(again), "--plugin-dir", t.TempDir()),
		"make the network namespace ktsn-vm-" + machineName: append(slices.Clone(again), plugins...),
	} {
		if err := c.tryVM(t, arguments...); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, and should speak of %q", err, part)
		}
		if left := leftIn(t, stateDir); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	}
	// What there was is still there: a machine of that name, and an interface that somebody else has called so.
	if after := c.linksOfNode(t); !slices.Equal(before, after) {
		t.Errorf("the node's interfaces were %q and are %q", before, after)
	}
	if err := c.NodeA.Do(func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = "ktsn-other"
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes})
	}); err != nil {
		t.Fatal(err)
	}
	before = c.linksOfNode(t)
	other := append([]string{"attach", "other", "--network", m.Network, "--conf-dir", m.ConfDir, "--state-dir", stateDir, "--mac", "0a:58:0a:2a:01:99"}, plugins...)
	if err := c.tryVM(t, other...); err == nil || len(leftIn(t, stateDir)) > 0 {
		t.Errorf("%v, with %q left", err, leftIn(t, stateDir))
	}
	if after := c.linksOfNode(t); !slices.Equal(before, after) {
		t.Errorf("the node's interfaces were %q and are %q", before, after)
	}
}

func TestGuestsSocketBelongsToHypervisor(t *testing.T) {
	const owner = 1234
	c := newCaptured(t, capture.Timed)
	m := c.attachMachine(t, "--owner", "1234")
	// As QEMU opens it, run by that user.
	open := exec.Command("perl", "-e", `open(my $tun, "+<", "/dev/net/tun") or die $!; `+
		`ioctl($tun, 0x400454ca, pack("Z16 s x22", $ARGV[0], 0x5002)) or die "$!\n"`, m.Tap)
	open.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner, Gid: owner}}
	var output []byte
	if err := c.NodeA.Do(func() (err error) { output, err = open.CombinedOutput(); return err }); err != nil {
		t.Errorf("its user cannot open the tap: %v: %s", err, output)
	}
	listen := exec.Command("perl", "-MIO::Socket::UNIX", "-e", `IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die "$!\n"; unlink $ARGV[0]`, m.Clock)
	listen.SysProcAttr = open.SysProcAttr
	for dir := m.stateDir; dir != os.TempDir(); dir = filepath.Dir(dir) { // those that testing makes are root's
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if output, err := listen.CombinedOutput(); err != nil {
		t.Errorf("its user cannot make the clock's socket: %v: %s", err, output)
	}
	about, err := os.Stat(filepath.Dir(m.Clock))
	if err != nil {
		t.Fatal(err)
	}
	if uid := about.Sys().(*syscall.Stat_t).Uid; uid != owner || about.Mode().Perm() != 0o750 {
		t.Errorf("the folder of the clock's socket is of user %d, with mode %v", uid, about.Mode())
	}
}

func TestGuestsByVhostUserUseNodeRelays(t *testing.T) {
	c := newCaptured(t, capture.Timed)
	m := c.attachMachine(t, "--device", "vhost-user", "--queues", "2", "--vcpus", "2", "--owner", strconv.Itoa(nobody))
	// QEMU's user must come as far as the socket.
	for dir := filepath.Dir(m.Socket); len(dir) > len("/run"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mac, err := net.ParseMAC(m.Address)
	if err != nil {
		t.Fatal(err)
	}
	rig := &guestRig{lab: c.lab, guestProgram: publicCopy(t, "ktsn-test-guest"), pairs: 2, path: m.Socket, podA: mac, podB: interfaceMAC(t, c.PodB), relay: c.relays}
	rig.startGuest(t)
	there := listenFrames(t, c.PodB, carriedEtherType)
	at := nowTAI(t) + int64(100*time.Millisecond)
	rig.send(t, 1, recorded(rig.frame(mac, "at its time"), at))
	if text := arrivedText(t, there); text != "at its time" || nowTAI(t) < at {
		t.Errorf("%q arrives at %d, and was due at %d", text, nowTAI(t), at)
	}
	c.vm(t, "detach", machineName, "--state-dir", m.stateDir)
	if _, err := os.Stat(m.Socket); !os.IsNotExist(err) {
		t.Errorf("its socket is left: %v", err)
	}
}

// A tap's queue is its class, and a frame of class 5 may leave in another window than one of class 0.
func TestGuestsTapQueueSetsClass(t *testing.T) {
	c := newCaptured(t, capture.All)
	m := c.attachMachine(t, "--queues", "8", "--vcpus", "2", "--class", "queue")
	var taps []*os.File
	for range 8 {
		taps = append(taps, c.openMachineTap(t, m))
	}
	mac, err := net.ParseMAC(m.Address)
	if err != nil {
		t.Fatal(err)
	}
	rig := &guestRig{lab: c.lab, podA: mac, podB: interfaceMAC(t, c.PodB)}
	there := listenFrames(t, c.PodB, carriedEtherType)
	following := c.follow(t, machineIdentity)
	c.awaitRelay(t, machineIdentity)
	const queue = 5
	// Until the relay answers, frames are the bridge's.
	for range 20 {
		writeTap(taps[queue], make([]byte, virtioHeaderBytes), rig.frame(mac, "by queue"))
		if text := arrivedText(t, there); text != "by queue" {
			t.Fatalf("%q arrives", text)
		}
	}
	traced := following.stop()
	if len(traced) == 0 {
		t.Fatal("ktsnd saw none of the frames")
	}
	for _, message := range traced {
		if message.TrafficClass != queue {
			t.Errorf("its class is %d: %+v", message.TrafficClass, message)
		}
	}
}

func TestGuestsForcedDetachWithoutPlugin(t *testing.T) {
	c := newCaptured(t, capture.Timed)
	m := c.attachMachine(t)
	if err := os.Remove(filepath.Join(m.ConfDir, "10-tsn.conflist")); err != nil {
		t.Fatal(err)
	}
	if err := c.tryVM(t, "detach", machineName, "--state-dir", m.stateDir); err == nil || !strings.Contains(err.Error(), "--force leaves it") {
		t.Errorf("%v", err)
	}
	if err := c.tryVM(t, "detach", machineName, "--state-dir", m.stateDir, "--force"); err == nil || !strings.Contains(err.Error(), "read the network's configuration") {
		t.Errorf("%v", err)
	}
	if left := leftIn(t, m.stateDir); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	if _, err := os.Stat("/run/netns/ktsn-vm-" + machineName); !os.IsNotExist(err) {
		t.Errorf("its network namespace is left: %v", err)
	}
}

func TestGuestsTapIsListed(t *testing.T) {
	c := newCaptured(t, capture.Timed)
	c.attachMachine(t)
	var output []byte
	err := c.NodeA.Do(func() (err error) {
		output, err = exec.Command(program(t, "ktsn"), "status", "--control", c.control).CombinedOutput()
		return err
	})
	if err != nil || !regexp.MustCompile(`(?m)^machine +\S+ tsn0, by a tap of the node$`).Match(output) || strings.Contains(string(output), "nothing has taken") {
		t.Errorf("%v: %s", err, output)
	}
}
