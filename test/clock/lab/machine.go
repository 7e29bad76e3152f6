// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
	"github.com/kubernetsn/kubernetsn/test/clock/shared"
)

// Machine has the parts of the virtual machines.
type Machine struct {
	// Base is the folder that scripts/guest-kernel.sh prints.
	Base string
	// First is the program ktsn-clock-guest; guests find Programs in /bin.
	First    string
	Programs []string
	// Dir is a folder for files of this run.
	Dir string
}

// Pack creates the initial file system of all guests.
func (m *Machine) Pack(ctx context.Context) error {
	root := filepath.Join(m.Dir, "root")
	names := []string{"init", "bin"}
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		return err
	}
	if err := copyFile(m.First, filepath.Join(root, "init")); err != nil {
		return err
	}
	for _, program := range m.Programs {
		name := filepath.Join("bin", filepath.Base(program))
		if err := copyFile(program, filepath.Join(root, name)); err != nil {
			return err
		}
		names = append(names, name)
	}
	pack := exec.CommandContext(ctx, "cpio", "-o", "-H", "newc", "--quiet", "-D", root)
	pack.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	archive, err := pack.Output()
	if err != nil {
		return fmt.Errorf("cpio: %w", err)
	}
	base, err := os.ReadFile(filepath.Join(m.Base, "clock.cpio"))
	if err != nil {
		return err
	}
	// Concatenated archives are one file system.
	return os.WriteFile(m.initial(), append(base, archive...), 0o600)
}

func (m *Machine) initial() string { return filepath.Join(m.Dir, "initial.cpio") }

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}

// Plan describes a guest.
type Plan struct {
	// Name is also the name of its port; Address is its network card's, with the prefix length.
	Name, Address string
	// Between adds a second network card, on the other bridge. Without it the guest has a single card, on the near
	// bridge.
	Between bool
	// PPM is the rate error of its clock, in millionths, with a cause that no program of the guest can change.
	PPM int
}

// Boot starts a guest on the network and waits for its first message. End ends it.
func (m *Machine) Boot(ctx context.Context, network *Network, plan Plan) (*Guest, error) {
	guest := &Guest{Plan: plan, ended: make(chan struct{})}
	for _, bridge := range guest.bridges() {
		if err := network.addPort(ctx, guest.port(bridge), bridge); err != nil {
			return nil, err
		}
	}
	memory := filepath.Join(m.Dir, plan.Name+".page")
	if err := os.WriteFile(memory, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(memory, guestclock.PageBytes); err != nil {
		return nil, err
	}
	page, err := guestclock.Map(memory)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", filepath.Join(m.Dir, plan.Name+".line"))
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	guest.page = page
	if err := guest.start(m.arguments(network, guest, memory, listener.Addr().String())); err != nil {
		return nil, err
	}
	if err := guest.connect(ctx, listener); err != nil {
		return nil, fmt.Errorf("boot %s: %w; its console says:\n%s", plan.Name, err, guest.End())
	}
	return guest, nil
}

// arguments returns QEMU's arguments. The counter is the host's, as the emulation reads it (no icount). It is the
// kernel's only clock, with a configured rate: so the rate error is exact, and below anything that the guest's programs
// set (ptp4l sets both tick and frequency). The periodic tick (nohz=off) keeps an idle guest as quick as a busy one.
// On a busy machine the emulated timer is too late for the kernel's check of it (no_timer_check).
// The network card sends when the kernel tells it to; virtio would leave that to another thread.
func (m *Machine) arguments(network *Network, guest *Guest, memory, line string) []string {
	kernel := fmt.Sprintf("console=ttyS0 quiet panic=-1 nokaslr mitigations=off no_timer_check nohz=off clocksource=tsc tsc=reliable pmtmr=0 "+
		"tsc_early_khz=%d guest.address=%s", kiloHertz(guest.PPM), guest.Address)
	arguments := []string{"netns", "exec", network.namespace, "qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot",
		"-machine", "pc,accel=tcg,hpet=off", "-cpu", "max", "-smp", "1", "-m", "256",
		"-kernel", filepath.Join(m.Base, "vmlinuz"), "-initrd", m.initial(), "-append", kernel,
		"-object", fmt.Sprintf("memory-backend-file,id=page,share=on,mem-path=%s,size=%d", memory, guestclock.PageBytes),
		"-device", "ivshmem-plain,memdev=page",
		"-serial", "stdio", "-chardev", "socket,id=line,path=" + line, "-serial", "chardev:line"}
	for _, bridge := range guest.bridges() {
		arguments = append(arguments, "-netdev", fmt.Sprintf("tap,id=%s,ifname=%s,script=no,downscript=no", bridge, guest.port(bridge)),
			"-device", fmt.Sprintf("e1000,netdev=%s,mitigation=off,romfile=,mac=%s", bridge, guest.mac(bridge)))
	}
	return arguments
}

// start runs the emulation.
func (g *Guest) start(arguments []string) error {
	g.command = exec.Command("ip", arguments...)
	g.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	console := &bytes.Buffer{}
	g.command.Stdout, g.command.Stderr = console, console
	began := make(chan error)
	go func() {
		// The kernel sends the death signal when the thread that started the machine ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := g.command.Start()
		began <- err
		if err != nil {
			return
		}
		err = g.command.Wait()
		g.console = fmt.Sprintf("%s(%v)", console, err)
		close(g.ended)
	}()
	return <-began
}

// bootPatience allows for several guests on a busy machine; ten seconds are usual.
const bootPatience = 3 * time.Minute

// connect accepts the guest's serial line and waits for its first message.
func (g *Guest) connect(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	line, err := listener.Accept()
	if err != nil {
		return fmt.Errorf("wait for its serial line: %w", errors.Join(err, ctx.Err()))
	}
	g.line = line
	there := make(chan struct{})
	g.replies = map[int]chan shared.Message{0: nil}
	go g.listen(line, there)
	select {
	case <-there:
		return nil
	case <-g.ended:
		return errors.New("it ended")
	case <-ctx.Done():
		return fmt.Errorf("wait for its first message: %w", ctx.Err())
	}
}

// End ends the guest and returns its console output.
func (g *Guest) End() string {
	if g.line != nil {
		g.line.Close()
	}
	_ = g.command.Process.Kill() // it may have ended
	<-g.ended
	return g.console
}

// kiloHertz returns the rate that the guest's kernel is configured with, so that its clock is too fast by ppm.
func kiloHertz(ppm int) int64 {
	return int64(math.Round(guestclock.Hertz() / 1e3 * (1 - float64(ppm)/1e6)))
}
