// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// configuration has containerd serve kubelets, as on a node.
const configuration = `version = 2
root = %q
state = %q
[grpc]
address = %q
[plugins."io.containerd.grpc.v1.cri"]
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = %q
`

// containerd starts a containerd of the test, and returns its socket.
func containerd(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"containerd", "ctr"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, program+" is missing; install Debian's package containerd")
		}
	}
	if os.Getuid() != 0 {
		missing(t, "containerd needs root")
	}
	folder, err := os.MkdirTemp("", "ctr") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket, log := filepath.Join(folder, "sock"), filepath.Join(folder, "log")
	config := fmt.Sprintf(configuration, filepath.Join(folder, "root"), filepath.Join(folder, "state"), socket, filepath.Join(folder, "cni"))
	if err := os.WriteFile(filepath.Join(folder, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	daemon := exec.Command("containerd", "--config", filepath.Join(folder, "config.toml"))
	daemon.Stdout, daemon.Stderr = output, output
	daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		_ = daemon.Wait()
	})
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for exec.CommandContext(ctx, "ctr", "--address", socket, "version").Run() != nil {
		if ctx.Err() != nil {
			text, _ := os.ReadFile(log)
			t.Fatalf("containerd does not answer:\n%s", text)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return socket
}

// checkNode imports the images as an air-gapped node does. A kubelet there finds those that the charts name.
func checkNode(t *testing.T, folder, version string) {
	t.Helper()
	socket := containerd(t)
	ctr := func(arguments ...string) string {
		t.Helper()
		return must(t, folder, "ctr", append([]string{"--address", socket, "-n", "k8s.io", "images"}, arguments...)...)
	}
	ctr("import", "--no-unpack", "kubernetsn-"+version+"-images.tar")
	named := imagesOfCharts(t, folder, version, "localhost/kubernetsn")
	absent := func() []string {
		images := managed(ctr("ls"))
		return slices.DeleteFunc(slices.Clone(named), func(name string) bool { return slices.Contains(images, name) })
	}
	for deadline := time.Now().Add(time.Minute); len(absent()) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a kubelet does not find %v", absent())
		}
	}
	at := filepath.Join(t.TempDir(), "image")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(at, 0) })
	operator := slices.IndexFunc(named, func(name string) bool { return strings.Contains(name, "/ktsn-operator@") })
	ctr("mount", "--snapshotter", "native", named[operator], at)
	if output := must(t, folder, filepath.Join(at, "usr/bin/ktsn-operator"), "--version"); !strings.HasPrefix(output, "ktsn-operator "+version) {
		t.Errorf("ktsn-operator of the image prints %q", output)
	}
}

// managed returns the names of images in the output of `ctr images ls` that containerd offers to kubelets.
func managed(list string) []string {
	var names []string
	for line := range strings.Lines(list) {
		if name, _, _ := strings.Cut(line, " "); strings.Contains(line, "io.cri-containerd.image=managed") && !strings.HasPrefix(name, "sha256:") {
			names = append(names, name)
		}
	}
	return names
}
