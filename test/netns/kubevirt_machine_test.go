// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// hypervisor is libvirt in a namespace as in virt-launcher: a session of an unprivileged user.
type hypervisor struct {
	where  *topology.Namespace
	folder string
	daemon *process.Process
}

// hypervisorDomain is the domain's name in kubevirt/testdata/alone.xml.
const hypervisorDomain = "plant_alone"

// startHypervisor starts libvirt with folders bind-mounted ("/here:/there").
func startHypervisor(t *testing.T, where *topology.Namespace, shown ...string) *hypervisor {
	t.Helper()
	for _, name := range []string{"libvirtd", "virsh"} {
		if _, err := exec.LookPath(name); err != nil {
			testlab.Missing(t, name+" is missing; run scripts/install-deps.sh test")
		}
	}
	h := &hypervisor{where: where, folder: publicDir(t)}
	for _, name := range []string{"run", "config", "cache", "data", "hooks", "hooks/c", "hooks/c/userdata", "private"} {
		folder := filepath.Join(h.folder, name)
		must(t, os.Mkdir(folder, 0o755))
		must(t, os.Chown(folder, nobody, nobody))
	}
	h.daemon = start(t, where, "libvirtd", h.daemonCommand(shown))
	return h
}

// hypervisorScript mounts folders and runs libvirt as an unprivileged user. It is the first process of a namespace, so
// virtual machines end with it.
const hypervisorScript = `mount --make-rprivate / && mount -t proc proc /proc || exit
	for shown in "$@"; do mount --bind "${shown%:*}" "${shown#*:}" || exit; done
	trap exit TERM
	setpriv --reuid "$0" --regid "$0" --clear-groups libvirtd --config /dev/null & wait $!`

func (h *hypervisor) daemonCommand(shown []string) *exec.Cmd {
	command := h.command("sh", append([]string{"-c", hypervisorScript, strconv.Itoa(nobody)}, shown...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	return command
}

// command returns a command of that user, with all of libvirt's files in the folder.
func (h *hypervisor) command(name string, arguments ...string) *exec.Cmd {
	command := asNobody(exec.Command(name, arguments...))
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.folder}
	for variable, folder := range map[string]string{"RUNTIME_DIR": "run", "CONFIG_HOME": "config", "CACHE_HOME": "cache", "DATA_HOME": "data"} {
		command.Env = append(command.Env, "XDG_"+variable+"="+filepath.Join(h.folder, folder))
	}
	return command
}

func (h *hypervisor) virsh(arguments ...string) (string, error) {
	command := h.command("virsh", append([]string{"--connect", "qemu:///session"}, arguments...)...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := h.where.Do(command.Run)
	return output.String(), err
}

// boot defines a domain and starts it.
func (h *hypervisor) boot(t *testing.T, domain string) {
	t.Helper()
	path := filepath.Join(h.folder, "domain.xml")
	must(t, os.WriteFile(path, []byte(domain), 0o644))
	testlab.Eventually(t, patience, 50*time.Millisecond, func() error {
		if _, err := os.Stat(filepath.Join(h.folder, "run/libvirt/libvirt-sock")); err == nil {
			return nil
		}
		return fmt.Errorf("libvirtd does not listen: %s", h.daemon.Stderr())
	})
	for _, arguments := range [][]string{{"define", path}, {"start", hypervisorDomain}} {
		if output, err := h.virsh(arguments...); err != nil {
			t.Fatalf("virsh %q: %v: %s\nlibvirtd's log: %s\nthe domain is %s", arguments, err, output, h.daemon.Stderr(), domain)
		}
	}
}

// log returns QEMU's log.
func (h *hypervisor) log() string {
	text, _ := os.ReadFile(filepath.Join(h.folder, "cache/libvirt/qemu/log", hypervisorDomain+".log"))
	return string(text)
}

// defined returns the domain that the sidecar returns to virt-launcher, with the paths of the machine's files. The
// input is a domain of KubeVirt.
func (h *hypervisor) defined(t *testing.T, kind string) string {
	t.Helper()
	kernel, _ := machineFiles(t)
	instance := filepath.Join(h.folder, "instance.json")
	asked := strings.NewReplacer(`"kubernetsn.io/device":"tap"`, `"kubernetsn.io/device":"`+kind+`","kubernetsn.io/device-queues":"2"`,
		`"status":{`, `"status":{"interfaces":[{"name":"blue","podInterfaceName":"`+topology.PodInterface+`"}],`)
	must(t, os.WriteFile(instance, []byte(asked.Replace(readText(t, "../../kubevirt/testdata/alone.json"))), 0o644))
	command := exec.Command(program(t, "ktsn-kubevirt"), "define", "--instance", instance, "--hooks", filepath.Join(h.folder, "hooks"), "--container", "c")
	command.Stdin = strings.NewReader(readText(t, "../../kubevirt/testdata/alone.xml"))
	var definition, stderr bytes.Buffer
	command.Stdout, command.Stderr = &definition, &stderr
	if err := h.where.Do(command.Run); err != nil {
		t.Fatalf("ktsn-kubevirt: %v: %s", err, stderr.String())
	}
	return strings.NewReplacer(`type="kvm"`, `type="qemu"`, "/var/run/kubevirt/container-disks/kernel-boot", filepath.Dir(kernel),
		"/var/run/kubevirt-private/f4686d2c-6e8d-4335-b8fd-81bee22f4814", filepath.Join(h.folder, "private")).Replace(definition.String())
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// machineAnswers sends frames until the machine returns one, which takes a while to boot.
func (h *hypervisor) machineAnswers(t *testing.T, send, there int, frame []byte) []byte {
	t.Helper()
	return testlab.EventuallyValue(t, bootPatience, 0, func() ([]byte, error) {
		if _, err := unix.Write(send, frame); err != nil {
			t.Fatal(err)
		}
		if back := receiveFrame(t, there, 200*time.Millisecond); back != nil {
			return back, nil
		}
		return nil, fmt.Errorf("the machine does not answer; QEMU's log: %s", h.log())
	})
}

// checkClock checks that QEMU has created the socket through which the machine requests the node's time.
func (h *hypervisor) checkClock(t *testing.T) {
	t.Helper()
	connection, err := net.Dial("unix", filepath.Join(h.folder, "hooks/c/userdata/clock.sock"))
	if err != nil {
		t.Errorf("the machine cannot ask for the node's time: %v", err)
		return
	}
	connection.Close()
}

func TestGuestsOfKubeVirtByTap(t *testing.T) {
	l := newLab(t)
	name, err := device.TapName(topology.PodInterface)
	must(t, err)
	mac := interfaceMAC(t, l.PodA)
	makeTap(t, l.PodA, name)
	h := startHypervisor(t, l.PodA)
	h.boot(t, h.defined(t, device.Tap))
	send, there := frameSocket(t, l.PodA, name, 0), frameSocket(t, l.PodA, name, carriedEtherType)
	from := []byte{2, 0, 0, 0, 0, 9}
	frame := fmt.Appendf(slices.Concat(mac, from, []byte{carriedEtherType >> 8, carriedEtherType & 0xff}), "%-46s", "and back")
	back := h.machineAnswers(t, send, there, frame)
	if want := slices.Concat(from, mac, frame[12:]); !bytes.Equal(back, want) {
		t.Errorf("%x returns, want %x", back, want)
	}
	h.checkClock(t)
	if output, err := h.virsh("dumpxml", hypervisorDomain); err != nil || !strings.Contains(output, "<driver queues='2'>") || !strings.Contains(output, "<host gso='off' tso4='off'") {
		t.Errorf("the domain is %s, %v", output, err)
	}
}

// makeTap creates a tap with several queues that the user may open, like tsn-cni.
func makeTap(t *testing.T, where *topology.Namespace, name string) {
	t.Helper()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	tap := &netlink.Tuntap{
		LinkAttrs: attributes, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_MULTI_QUEUE_DEFAULTS | netlink.TUNTAP_VNET_HDR,
		Owner: nobody, Group: nobody, // otherwise root's group is required too
	}
	must(t, where.Do(func() error {
		if err := netlink.LinkAdd(tap); err != nil {
			return err
		}
		return netlink.LinkSetUp(tap)
	}))
}

func TestGuestsOfKubeVirtByVhostUser(t *testing.T) {
	rig := newGuestRig(t, 2, false, "--records")
	_, client := rig.startDaemon(t)
	rig.startRelay(t)
	rig.awaitSocket(t)
	emulator, shown := publicQEMU(t)
	h := startHypervisor(t, rig.PodA, shown...)
	domain := strings.Replace(h.defined(t, device.VhostUser), "/run/ktsn/"+device.SocketName(topology.PodInterface), rig.path, 1)
	domain = strings.Replace(domain, "<devices>", "<devices><emulator>"+emulator+"</emulator>", 1)
	h.boot(t, domain)
	send, there := frameSocket(t, rig.PodB, topology.PodInterface, 0), listenFrames(t, rig.PodB, carriedEtherType)
	h.machineAnswers(t, send, there, rig.toMachine("and back"))
	for receiveFrame(t, there, 200*time.Millisecond) != nil {
	}
	at := testlab.ClockNow(unix.CLOCK_TAI) + int64(time.Second)
	text := fmt.Sprintf("at %d", at)
	if _, err := unix.Write(send, rig.toMachine(text)); err != nil {
		t.Fatal(err)
	}
	if back := arrivedText(t, there); back != text {
		t.Errorf("%q returns, want %q", back, text)
	}
	if now := testlab.ClockNow(unix.CLOCK_TAI); now < at {
		t.Errorf("a frame arrives %d ns before its time", at-now)
	}
	awaitSent(t, client, 1)
	h.checkClock(t)
	// The machine reconnects to a restarted relay.
	kill(t, rig.relay)
	rig.startRelay(t)
	rig.awaitEcho(t, send, there, "with another relay")
}

// publicQEMU returns a program that runs the QEMU of bookworm-backports for every user and the bind mounts it needs:
// Debian 12's QEMU crashes when a machine with interrupt vectors looks for a vhost-user device. QEMU also crashes when
// it finds modules of another version.
func publicQEMU(t *testing.T) (path string, shown []string) {
	t.Helper()
	qemu := guestmachine.QEMU(t, "../..")
	from, to := filepath.Dir(filepath.Dir(qemu[0])), publicDir(t)
	modules, err := filepath.Glob(filepath.Join(from, "lib/*/qemu"))
	if err != nil || len(modules) != 1 {
		t.Fatalf("the modules of QEMU are %q, %v", modules, err)
	}
	shown = []string{from + ":" + to, modules[0] + ":/usr" + strings.TrimPrefix(modules[0], from)}
	path = filepath.Join(publicDir(t), "qemu")
	script := "#!/bin/sh\nexec " + strings.ReplaceAll(strings.Join(qemu, " "), from, to) + ` "$@"` + "\n"
	must(t, os.WriteFile(path, []byte(script), 0o755))
	return path, shown
}
