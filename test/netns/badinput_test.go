// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

func TestDaemonRejectsBadInputInOneLine(t *testing.T) {
	content(t)
	lab := newLab(t)
	program(t, "ktsnd")
	for name, test := range map[string]struct {
		// arguments replace the valid ones. "CONTROL" stands for an unused path.
		arguments []string
		command   func(*exec.Cmd) *exec.Cmd
		want      string
	}{
		"without privileges": {
			arguments: []string{"--interface", "phys0", "--local-address", "192.0.2.1", "--control", "CONTROL"},
			command:   asNobody, want: "root"},
		"no interface given":  {arguments: []string{"--control", "CONTROL"}, want: "--interface"},
		"no such interface":   {arguments: []string{"--interface", "nowhere0", "--control", "CONTROL"}, want: "nowhere0"},
		"not Ethernet":        {arguments: []string{"--interface", "lo", "--control", "CONTROL"}, want: "lo"},
		"an unknown option":   {arguments: []string{"--interface", "phys0", "--control", "CONTROL", "--fast"}, want: "fast"},
		"an extra argument":   {arguments: []string{"--interface", "phys0", "--control", "CONTROL", "now"}, want: "now"},
		"an invalid CPU":      {arguments: []string{"--interface", "phys0", "--control", "CONTROL", "--cpu", "x"}, want: "--cpu"},
		"a missing CPU":       {arguments: []string{"--interface", "phys0", "--control", "CONTROL", "--cpu", "1000"}, want: "1000"},
		"a priority too high": {arguments: []string{"--interface", "phys0", "--control", "CONTROL", "--fifo", "100"}, want: "--fifo"},
		"an invalid address": {
			arguments: []string{"--interface", "phys0", "--control", "CONTROL", "--local-address", "192.0.2"}, want: "192.0.2"},
		"a missing folder for the socket": {
			arguments: []string{"--interface", "phys0", "--control", "/nowhere/control.sock"}, want: "/nowhere/control.sock"},
		"an unknown DPDK device": {
			arguments: []string{"--interface", "phys0", "--control", "CONTROL", "--device", "net_nothing0"}, want: "net_nothing0"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(lab.dir, "bad.sock")
			arguments := strings.Split(strings.ReplaceAll(strings.Join(test.arguments, "\n"), "CONTROL", path), "\n")
			command := exec.Command(publicCopy(t, "ktsnd"), arguments...)
			if test.command != nil {
				command = test.command(command)
			}
			checkRefusal(t, lab.NodeA, command, test.want)
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s was not removed", path)
			}
		})
	}
}

// checkRefusal checks that a program exits with a failure and prints one line that contains want.
func checkRefusal(t *testing.T, where *topology.Namespace, command *exec.Cmd, want string) {
	t.Helper()
	refused := start(t, where, "ktsnd", command)
	err := finish(t, refused)
	message := strings.TrimSpace(refused.Stderr())
	if err == nil || !strings.Contains(message, want) {
		t.Errorf("it ended with %v and printed %q, want a sentence with %q", err, message, want)
	}
	if strings.Contains(message, "\n") {
		t.Errorf("it said more than one line:\n%s", message)
	}
}

func TestDaemonRejectsInterfaceThatIsDown(t *testing.T) {
	content(t)
	lab := newLab(t)
	must(t, finish(t, start(t, lab.NodeA, "ip", exec.Command("ip", "link", "set", "phys0", "down"))))
	checkRefusal(t, lab.NodeA, exec.Command(program(t, "ktsnd"), lab.daemonArguments()...), "down")
	if _, err := os.Lstat(lab.control); err == nil {
		t.Errorf("%s was not removed", lab.control)
	}
}

func TestSocketOfLiveDaemonIsKept(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	checkRefusal(t, lab.NodeA, exec.Command(program(t, "ktsnd"), lab.daemonArguments()...), lab.control)
	if _, err := client.Status(t.Context()); err != nil {
		t.Errorf("the live daemon suffered: %v", err)
	}
	if fresh, err := control.Dial(t.Context(), lab.control); err != nil {
		t.Errorf("the live daemon cannot be reached any more: %v", err)
	} else {
		fresh.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := client.SocketAdd(ctx, "another-pod", lab.socket); err == nil {
		t.Error("another pod was given the socket of the first")
	}
}

func TestDaemonRemovesItsSocketsAtExit(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, _ := lab.startDaemon(t)
	if err := daemon.Stop(patience); err != nil {
		t.Error(err)
	}
	if err := daemon.Wait(); err != nil {
		t.Errorf("SIGTERM is an order, not a failure: %v", err)
	}
	for _, path := range []string{lab.control, lab.socket} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was not removed", path)
		}
	}
}

func TestErrorsNameTheField(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	ctx := t.Context()
	good := control.Endpoint{Identity: "x", Interface: "tsn0", Netns: lab.PodA.Path(), VNI: 42}
	with := func(change func(*control.Endpoint)) func() error {
		endpoint := good
		change(&endpoint)
		return func() error { return client.EndpointAdd(ctx, endpoint) }
	}
	for name, test := range map[string]struct {
		call  func() error
		field string
	}{
		"an empty identity":           {with(func(e *control.Endpoint) { e.Identity = "" }), "identity"},
		"an identity with a slash":    {with(func(e *control.Endpoint) { e.Identity = "a/b" }), "identity"},
		"a namespace that is not":     {with(func(e *control.Endpoint) { e.Netns = "/run/netns/nowhere" }), "netns"},
		"a namespace that is a file":  {with(func(e *control.Endpoint) { e.Netns = "/proc/version" }), "netns"},
		"an interface that is not":    {with(func(e *control.Endpoint) { e.Interface = "nowhere0" }), "interface"},
		"a network number of 0":       {with(func(e *control.Endpoint) { e.VNI = 0 }), "vni"},
		"a network number too large":  {with(func(e *control.Endpoint) { e.VNI = 1 << 24 }), "vni"},
		"a socket path not absolute":  {func() error { return client.SocketAdd(ctx, "x", "app.sock") }, "path"},
		"a socket in no folder":       {func() error { return client.SocketAdd(ctx, "x", "/nowhere/app.sock") }, "path"},
		"the socket of another pod":   {func() error { return client.SocketAdd(ctx, "x", lab.socket) }, "path"},
		"the control socket's path":   {func() error { return client.SocketAdd(ctx, "x", lab.control) }, "path"},
		"a second socket of one pod":  {func() error { return client.SocketAdd(ctx, identity, lab.socket+"2") }, "path"},
		"a peer of network number 0":  {func() error { return client.PeerDel(ctx, 0, topology.NodeAddressB) }, "vni"},
		"a path as long as the world": {func() error { return client.SocketAdd(ctx, "x", "/"+strings.Repeat("x", 200)) }, "path"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.call()
			refusal, ok := err.(*control.Error)
			if !ok || refusal.Field != test.field {
				t.Errorf("got %v, want a refusal of %s", err, test.field)
			}
			if _, err := client.Status(ctx); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
	endpoints, err := client.Endpoints(ctx)
	if err != nil || len(endpoints) != 1 {
		t.Errorf("after refusals there are %d endpoints, %v", len(endpoints), err)
	}
}

// kill kills a program with SIGKILL and waits for it.
func kill(t *testing.T, running *process.Process) {
	t.Helper()
	victim, err := os.FindProcess(running.PID())
	must(t, err)
	_ = victim.Kill()
	_ = finish(t, running)
}
