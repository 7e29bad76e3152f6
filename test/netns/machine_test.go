// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"bytes"
	"encoding/json"
	"fmt"
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

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
)

// guestPatience is the timeout for a virtual machine, which takes half a minute on an idle machine.
const guestPatience = 5 * time.Minute

var (
	// machineName is unique to this process: network namespaces are global.
	machineName = "v" + strconv.Itoa(os.Getpid()%1_000_000_000)
	// machineIdentity is its identity in ktsnd.
	machineIdentity = "vm-" + machineName
)

// virtualMachine is a machine that `ktsn vm attach` has connected to node a.
type virtualMachine struct {
	*vm.Machine
	stateDir string
}

// attachMachine connects a machine to the network of pod a until the end of the test.
func (c *captured) attachMachine(t *testing.T, options ...string) *virtualMachine {
	t.Helper()
	return c.attachMachineAs(t, machineName, c.wiring.A.Another("", nil, neighborAddress), options...)
}

// attachMachineAs connects a machine with the given name and a side's addresses.
func (c *captured) attachMachineAs(t *testing.T, name string, side *cniruntime.Side, options ...string) *virtualMachine {
	t.Helper()
	confDir, stateDir := t.TempDir(), t.TempDir()
	network, text, err := side.Configuration(c.control)
	if err == nil {
		err = os.WriteFile(filepath.Join(confDir, "10-tsn.conflist"), text, 0o644)
	}
	must(t, err)
	machine := &virtualMachine{stateDir: stateDir}
	output := c.vm(t, append([]string{"attach", name, "--network", network, "--conf-dir", confDir, "--plugin-dir", filepath.Dir(program(t, "tsn-cni")),
		"--state-dir", stateDir, "-o", "json"}, options...)...)
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(stateDir, name+".json")); err == nil {
			c.vm(t, "detach", name, "--state-dir", stateDir)
		}
	})
	if err := json.Unmarshal(output, &machine.Machine); err != nil {
		t.Fatalf("%q: %v", output, err)
	}
	return machine
}

// vm runs `ktsn vm` on node a.
func (c *captured) vm(t *testing.T, arguments ...string) []byte {
	t.Helper()
	output, err := c.runVM(t, arguments)
	if err != nil {
		t.Fatalf("ktsn vm %q: %v", arguments, err)
	}
	return output
}

func (c *captured) tryVM(t *testing.T, arguments ...string) error {
	t.Helper()
	_, err := c.runVM(t, arguments)
	return err
}

func (c *captured) runVM(t *testing.T, arguments []string) ([]byte, error) {
	t.Helper()
	command := exec.Command(program(t, "ktsn"), append([]string{"vm"}, arguments...)...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := c.NodeA.Do(command.Run); err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.Bytes(), nil
}

// guestStatus is ktsn-guest's status of an interface.
type guestStatus struct {
	Known   bool              `json:"known"`
	BoundNs int64             `json:"bound_ns"`
	AheadNs int64             `json:"host_tai_ahead_of_guest_ns"`
	Sent    uint64            `json:"sent"`
	Refused map[string]uint64 `json:"refused"`
}

// argumentsOf returns the QEMU arguments that `ktsn vm attach` prints, except the number of CPUs.
func argumentsOf(m *vm.Machine) []string {
	return strings.Fields(strings.ReplaceAll(strings.TrimPrefix(m.QEMU(), fmt.Sprintf("-smp %d", m.VCPUs)), "\\\n", ""))
}

// checkHeld checks that all messages left once, in order, not early by the host's clock, and with the guest's times.
func checkHeld(t *testing.T, traced []control.TracedMessage, seen []markedPacket, count int, before, after guestStatus) {
	t.Helper()
	if len(traced) != count || len(seen) != count {
		t.Fatalf("ktsnd saw %d of %d messages, and %d were on the wire", len(traced), count, len(seen))
	}
	// The host clock's lead is known before and after the run only, each time within a bound.
	bound := max(before.BoundNs, after.BoundNs)
	least, most := min(before.AheadNs, after.AheadNs)-bound, max(before.AheadNs, after.AheadNs)+bound
	for i, message := range seen {
		due := traced[i].DueTAI
		if int(message.number) != i || due < message.txtime+least || due > message.txtime+most {
			t.Errorf("in place %d is message %d of the guest's time %d, due at %d; the host is ahead by %d to %d", i, message.number, message.txtime, due, least, most)
		}
		if early := due - min(message.wireTAI, traced[i].EndedTAI); early > 0 {
			t.Errorf("message %d left %v early", message.number, time.Duration(early))
		}
	}
}

// formatDepartures returns the lateness of departures as text.
func formatDepartures(traced []control.TracedMessage) string {
	var errors []int64
	for _, message := range traced {
		errors = append(errors, message.EndedTAI-message.DueTAI)
	}
	slices.Sort(errors)
	return fmt.Sprintf("p50 %v, p99 %v", time.Duration(stats.Percentile(errors, stats.P50)), time.Duration(stats.Percentile(errors, stats.P99)))
}

func TestGuestsDetachLeavesNothing(t *testing.T) {
	c := newCaptured(t, capture.Timed)
	before := c.linksOfNode(t)
	m := c.attachMachine(t, "--queues", "4", "--vcpus", "2", "--mac", "0a:58:0a:2a:01:77")
	if m.Address != "0a:58:0a:2a:01:77" || m.MTU != 1450 || len(m.Prefixes) != 1 || m.Prefixes[0].Addr() != neighborAddress {
		t.Errorf("it was attached as %+v", m.Machine)
	}
	if output := string(c.vm(t, "list", "--state-dir", m.stateDir)); !strings.Contains(output, m.Tap) || !strings.Contains(output, m.Address) {
		t.Errorf("ktsn vm list reports %q", output)
	}
	for part, arguments := range map[string][]string{
		"is connected already": {"attach", machineName, "--network", "tsn", "--conf-dir", m.ConfDir},
		"at least 2 virtual":   {"attach", "vm2", "--network", "tsn", "--conf-dir", m.ConfDir, "--queues", "2"},
		"no net configuration": {"attach", "vm2", "--network", "other", "--conf-dir", m.ConfDir},
		"no virtual machine":   {"detach", "vm2"},
	} {
		testlab.CheckError(t, c.tryVM(t, append(arguments, "--state-dir", m.stateDir)...), part)
	}
	c.vm(t, "detach", machineName, "--state-dir", m.stateDir)
	if after := c.linksOfNode(t); !slices.Equal(before, after) {
		t.Errorf("the node's interfaces were %q and are %q", before, after)
	}
	if _, err := os.Stat("/run/netns/ktsn-vm-" + machineName); !os.IsNotExist(err) {
		t.Errorf("its network namespace is left: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(m.stateDir, "*.json"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}

// linksOfNode returns the names of node a's interfaces.
func (c *captured) linksOfNode(t *testing.T) (names []string) {
	t.Helper()
	must(t, c.NodeA.Do(func() error {
		links, err := netdev.Dump(netlink.LinkList)
		for _, link := range links {
			// The supervisor removes the relay's device after it has noticed that the interface is gone.
			if !strings.HasPrefix(link.Attrs().Name, "ktsnr") {
				names = append(names, link.Attrs().Name)
			}
		}
		return err
	}))
	slices.Sort(names)
	return names
}

// leftIn returns the files in a state directory except the lock and the library's own.
func leftIn(t *testing.T, stateDir string) (left []string) {
	t.Helper()
	for _, pattern := range []string{"*.json*", "sockets/*"} {
		paths, err := filepath.Glob(filepath.Join(stateDir, pattern))
		must(t, err)
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
		testlab.CheckError(t, c.tryVM(t, arguments...), part)
		if left := leftIn(t, stateDir); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	}
	// Existing objects are kept: a machine and a foreign interface of that name.
	if after := c.linksOfNode(t); !slices.Equal(before, after) {
		t.Errorf("the node's interfaces were %q and are %q", before, after)
	}
	must(t, c.NodeA.Do(func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = "ktsn-other"
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes})
	}))
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
	// Like QEMU run by that user.
	open := exec.Command("perl", "-e", `open(my $tun, "+<", "/dev/net/tun") or die $!; `+
		`ioctl($tun, 0x400454ca, pack("Z16 s x22", $ARGV[0], 0x5002)) or die "$!\n"`, m.Tap)
	open.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner, Gid: owner}}
	var output []byte
	if err := c.NodeA.Do(func() (err error) { output, err = open.CombinedOutput(); return err }); err != nil {
		t.Errorf("its user cannot open the tap: %v: %s", err, output)
	}
	listen := exec.Command("perl", "-MIO::Socket::UNIX", "-e", `IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die "$!\n"; unlink $ARGV[0]`, m.Clock)
	listen.SysProcAttr = open.SysProcAttr
	for dir := m.stateDir; dir != os.TempDir(); dir = filepath.Dir(dir) { // folders of package testing belong to root
		must(t, os.Chmod(dir, 0o755))
	}
	if output, err := listen.CombinedOutput(); err != nil {
		t.Errorf("its user cannot make the clock's socket: %v: %s", err, output)
	}
	about, err := os.Stat(filepath.Dir(m.Clock))
	must(t, err)
	if uid := about.Sys().(*syscall.Stat_t).Uid; uid != owner || about.Mode().Perm() != 0o750 {
		t.Errorf("the folder of the clock's socket is of user %d, with mode %v", uid, about.Mode())
	}
}

func TestGuestsByVhostUserUseNodeRelays(t *testing.T) {
	c := newCaptured(t, capture.Timed)
	m := c.attachMachine(t, "--device", "vhost-user", "--queues", "2", "--vcpus", "2", "--owner", strconv.Itoa(nobody))
	// QEMU's user needs access to the socket.
	for dir := filepath.Dir(m.Socket); len(dir) > len("/run"); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	mac, err := net.ParseMAC(m.Address)
	must(t, err)
	rig := &guestRig{relayRig: &relayRig{lab: c.lab, podA: mac, podB: interfaceMAC(t, c.PodB), relay: c.relays}, guestProgram: publicCopy(t, "ktsn-test-guest"), pairs: 2, path: m.Socket}
	rig.startGuest(t)
	there := listenFrames(t, c.PodB, carriedEtherType)
	at := testlab.ClockNow(unix.CLOCK_TAI) + int64(100*time.Millisecond)
	rig.send(t, 1, withRecord(rig.frame(mac, "at its time"), at))
	if text := arrivedText(t, there); text != "at its time" || testlab.ClockNow(unix.CLOCK_TAI) < at {
		t.Errorf("%q arrives at %d, and was due at %d", text, testlab.ClockNow(unix.CLOCK_TAI), at)
	}
	c.vm(t, "detach", machineName, "--state-dir", m.stateDir)
	if _, err := os.Stat(m.Socket); !os.IsNotExist(err) {
		t.Errorf("its socket is left: %v", err)
	}
}

// TestGuestsTapQueueSetsClass checks that a tap's queue is its class, and that a frame of class 5 leaves in another
// window than one of class 0.
func TestGuestsTapQueueSetsClass(t *testing.T) {
	c := newCaptured(t, capture.All)
	m := c.attachMachine(t, "--queues", "8", "--vcpus", "2", "--class", "queue")
	var taps []*os.File
	for range 8 {
		taps = append(taps, c.openMachineTap(t, m))
	}
	mac, err := net.ParseMAC(m.Address)
	must(t, err)
	rig := &relayRig{lab: c.lab, podA: mac, podB: interfaceMAC(t, c.PodB)}
	there := listenFrames(t, c.PodB, carriedEtherType)
	following := c.follow(t, machineIdentity)
	c.awaitRelay(t, machineIdentity)
	const queue = 5
	// The bridge forwards frames until the relay answers.
	for range 20 {
		writeTap(taps[queue], make([]byte, virtioHeaderBytes), rig.frame(mac, "by queue"))
		expectText(t, there, "by queue")
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
	must(t, os.Remove(filepath.Join(m.ConfDir, "10-tsn.conflist")))
	testlab.CheckError(t, c.tryVM(t, "detach", machineName, "--state-dir", m.stateDir), "--force leaves it")
	testlab.CheckError(t, c.tryVM(t, "detach", machineName, "--state-dir", m.stateDir, "--force"), "read the network's configuration")
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

// TestGuestsByVhostUserAreNotMigrated checks that the relay offers no log of dirty memory, without which QEMU refuses
// to migrate a machine away from the frames that its relay holds. The machine's CPUs do not run here.
func TestGuestsByVhostUserAreNotMigrated(t *testing.T) {
	root, err := filepath.Abs("../..")
	must(t, err)
	rig := newGuestRig(t, 1, true)
	rig.startRelay(t)
	control := filepath.Join(publicDir(t), "qmp.sock")
	qemu := append(guestmachine.QEMU(t, root), "-nodefaults", "-display", "none", "-S", "-machine", "q35,accel=tcg", "-m", "64",
		"-object", "memory-backend-memfd,id=mem,size=64M,share=on", "-numa", "node,memdev=mem",
		"-chardev", "socket,id=tsn,server=on,path="+rig.path, "-netdev", "vhost-user,id=tsn,chardev=tsn",
		"-device", "virtio-net-pci,netdev=tsn,mac="+net.HardwareAddr(rig.podA).String(),
		"-qmp", "unix:"+control+",server=on,wait=off")
	machine := start(t, rig.NodeA, "qemu", exec.Command("sh", append([]string{"-c", `umask 0; exec "$0" "$@"`}, qemu...)...))
	conn := testlab.EventuallyValue(t, patience, 10*time.Millisecond, func() (net.Conn, error) {
		conn, err := net.Dial("unix", control)
		if err != nil {
			return nil, fmt.Errorf("%w; QEMU's log: %s; the relay's log: %s", err, machine.Stderr(), rig.relay.Stderr())
		}
		return conn, nil
	})
	defer conn.Close()
	q := newQMP(t, conn)
	refused := q.try(t, "migrate", map[string]any{"uri": "exec:cat >/dev/null"})
	if !strings.Contains(refused, "vhost-user backend lacks") {
		t.Errorf("QEMU reports %q of a migration", refused)
	}
	t.Log(refused)
}
