// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// podman is Debian's podman on a node, with its own storage and network configurations.
type podman struct {
	node    *node
	program string
	dir     string
}

// newPodman configures podman to attach containers with tsn-cni, in the newest version of its libcni.
func newPodman(t *testing.T, n *node) *podman {
	t.Helper()
	path, err := exec.LookPath("podman")
	if err != nil {
		testlab.Missing(t, "podman is missing; install Debian's package podman")
	}
	if _, err := exec.LookPath("runc"); err != nil {
		testlab.Missing(t, "runc is missing; install Debian's package runc")
	}
	p := &podman{n, path, filepath.Join(n.dir, "podman")}
	for _, folder := range []string{"net.d", "rootfs/usr", "rootfs/proc", "rootfs/sys", "rootfs/dev", "rootfs/etc", "rootfs/run"} {
		must(t, os.MkdirAll(filepath.Join(p.dir, folder), 0o755))
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} { // as on Debian
		must(t, os.Symlink("usr/"+name, filepath.Join(p.dir, "rootfs", name)))
	}
	must(t, os.WriteFile(filepath.Join(p.dir, "containers.conf"), fmt.Appendf(nil, `[network]
network_backend = "cni"
cni_plugin_dirs = [%q, %q]
network_config_dir = %q
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
`, shipped(t), referencePlugins(t), filepath.Join(p.dir, "net.d")), 0o644))
	configs, err := cniruntime.List("1.0.0", networkName, n.config(nil))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(p.dir, "net.d", "tsn.conflist"), configs.Bytes, 0o644))
	return p
}

// command returns a podman command on the node.
func (p *podman) command(arguments ...string) *exec.Cmd {
	command := exec.Command(p.program, append([]string{"--root", filepath.Join(p.dir, "root"), "--runroot", filepath.Join(p.dir, "runroot"),
		"--tmpdir", filepath.Join(p.dir, "tmp"), "--storage-driver", "vfs"}, arguments...)...)
	command.Env = append(os.Environ(), "CONTAINERS_CONF="+filepath.Join(p.dir, "containers.conf"))
	return command
}

// run starts a container with a shell that reads commands from standard input and has the node's programs and sockets.
func (p *podman) run(t *testing.T, name string) (*process.Process, io.WriteCloser, *bufio.Reader) {
	t.Helper()
	sockets := filepath.Join(p.node.dir, "pods")
	must(t, os.MkdirAll(sockets, 0o755))
	command := p.command("run", "--rm", "--interactive", "--name", name, "--network", networkName+":interface_name="+podIf,
		"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--volume", "/usr:/usr:ro",
		"--volume", testlab.BinDir(t)+":/opt:ro", "--volume", sockets+":/run/ktsn:ro",
		"--rootfs", filepath.Join(p.dir, "rootfs"), "/bin/sh")
	stdin, err := command.StdinPipe()
	must(t, err)
	stdout, err := command.StdoutPipe()
	must(t, err)
	started := start(t, p.node.Namespace, "podman", command)
	t.Cleanup(func() {
		stdin.Close()
		_ = p.command("rm", "--force", "--time", "0", name).Run()
	})
	return started, stdin, bufio.NewReader(stdout)
}

// TestPodmanAttachesContainers runs a container with a tsn interface only. Another node reaches it and receives its
// timed messages.
func TestPodmanAttachesContainers(t *testing.T) {
	r := newReachable(t)
	podman := newPodman(t, r.a)
	before := r.a.inventory(t)
	name := "ktsn-test-" + strconv.Itoa(os.Getpid())
	container, stdin, stdout := podman.run(t, name)

	fmt.Fprintln(stdin, "set -- $(ip -o -4 address show tsn0); echo $4")
	prefix := line(t, container, stdout)
	prefixOfPod, err := netip.ParsePrefix(prefix)
	if err != nil || !r.a.subnet.Contains(prefixOfPod.Addr()) {
		t.Fatalf("its address is %q", prefix)
	}
	ping(t, r.b1, prefixOfPod.Addr(), 56)
	ping(t, r.a2, prefixOfPod.Addr(), 56)

	file := filepath.Join(r.b.dir, "listener.csv")
	listener := r.startListener(t, r.b1, file, 20)
	// A container's host name is the beginning of its ID.
	fmt.Fprintf(stdin, "export KTSN_SOCKET=$(echo /run/ktsn/$HOSTNAME*/app.sock) LD_PRELOAD=/opt/libktsn.so\n"+
		"/opt/tsnperf talker --quiet --count 20 --to %s; echo $?\n", netip.AddrPortFrom(r.address(r.b1, true), 7788))
	if status := line(t, container, stdout); status != "0" {
		t.Errorf("the talker ended with %q", status)
	}
	must(t, listener.Wait())
	if received := testlab.ReadFile(t, file, tsnperf.ReadListener); len(received) != 20 {
		t.Errorf("%d of 20 timed messages arrived", len(received))
	}
	if sent := r.a.counters(t).Sent; sent != 20 {
		t.Errorf("ktsnd sent %d of 20 messages", sent)
	}
	must(t, errors.Join(stdin.Close(), container.Wait()))
	after := slices.DeleteFunc(r.a.inventory(t), func(line string) bool {
		return strings.HasPrefix(line, "forwarding "+tunnelName) // learned from the other node's pods
	})
	checkSame(t, "after it has ended", slices.DeleteFunc(before, func(line string) bool {
		return strings.HasPrefix(line, "forwarding "+tunnelName)
	}), after)
}

// TestPodmanDetachesKilledContainers kills a container.
func TestPodmanDetachesKilledContainers(t *testing.T) {
	lab := newServedLab(t)
	podman := newPodman(t, lab.a)
	before := lab.a.inventory(t)
	name := "ktsn-test-kill-" + strconv.Itoa(os.Getpid())
	container, stdin, stdout := podman.run(t, name)
	fmt.Fprintln(stdin, "echo here")
	if text := line(t, container, stdout); text != "here" {
		t.Fatalf("got %q", text)
	}
	if out, err := podman.command("kill", "--signal", "KILL", name).CombinedOutput(); err != nil {
		t.Fatalf("podman kill: %v: %s", err, out)
	}
	_ = container.Wait()
	// podman cleans up after it has noticed.
	eventually(t, "podman has cleaned up", func() bool { return len(lab.a.inventory(t)) <= len(before) })
	checkSame(t, "after it was killed", before, lab.a.inventory(t))
}

// line reads one line of the container's output.
func line(t *testing.T, container *process.Process, stdout *bufio.Reader) string {
	t.Helper()
	text, err := stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("the container prints nothing more: %v; podman's log: %s", err, container.Stderr())
	}
	return strings.TrimSpace(text)
}
