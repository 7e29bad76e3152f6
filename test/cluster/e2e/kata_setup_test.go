// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
)

// These are handlers of the nodes' containerd (test/cluster/internal/kube/config), of the runtime that replaces Kata's
// (test/cluster/kata). The chart knows the first two. kataAbsent has only a RuntimeClass.
const (
	kataVeth    = "kata-qemu"
	kataDAN     = "kata-dan"
	kataUnnamed = "kata-unnamed"
	kataAbsent  = "kata-absent"
	danFolder   = "/run/kata-containers/dans"
)

// kataClass is the RuntimeClass of a handler.
const kataClass = `
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: %s}
handler: %[1]s
`

// kataValues configure the handlers in the chart.
var kataValues = []string{"--set", "kata.handlers." + kataVeth + "=veth,kata.handlers." + kataDAN + "=" + danFolder}

// kataFolder is Kata's folder on nodes.
const kataFolder = "/opt/kata"

// kataConfigs are Kata's configurations of the handlers. The machine's port by which ktsn-guest asks for the time, and
// the program that answers, are not part of Kata.
var kataConfigs = map[string]string{
	"configuration-qemu.toml": kataConfig,
	"configuration-dan.toml":  kataConfig + "[runtime]\ndan_conf = \"" + danFolder + "\"\n",
}

const kataConfig = `[hypervisor.qemu]
path = "/usr/bin/qemu-system-x86_64"
kernel = "/opt/kata/share/kata-containers/vmlinux"
initrd = "/opt/kata/share/kata-containers/initrd"
default_vcpus = 1
default_memory = 256
clock_command = ["/opt/kata/bin/ktsn", "vm", "clock", "--socket"]
`

// installKata installs the runtime and its machines' boot files on all nodes, and the classes in the cluster, until the
// test ends.
func installKata(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, handler := range []string{kataVeth, kataDAN, kataUnnamed, kataAbsent} {
		applyText(ctx, t, fmt.Sprintf(kataClass, handler))
		t.Cleanup(func() {
			if err := client.NodeV1().RuntimeClasses().Delete(context.WithoutCancel(ctx), handler, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	repository, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	base := guestmachine.Kernel(t, repository)
	kernel, initrd := unpackKernel(t, base), packInitrd(t, base, testlab.Program(t, "ktsn-test-kata-agent"))
	for _, host := range under.Nodes {
		folder := under.Root(host.Name) + kataFolder
		t.Cleanup(func() {
			if err := os.RemoveAll(folder); err != nil {
				t.Error(err)
			}
		})
		for at, from := range map[string]string{
			"bin/containerd-shim-ktsnkata-v2": testlab.Program(t, "containerd-shim-ktsnkata-v2"), "bin/ktsn": testlab.Program(t, "ktsn"),
			"share/kata-containers/vmlinux": kernel, "share/kata-containers/initrd": initrd,
		} {
			content, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			writeProgram(t, filepath.Join(folder, at), content)
		}
		for name, content := range kataConfigs {
			writeProgram(t, filepath.Join(folder, "share/defaults/kata-containers", name), []byte(content))
		}
	}
}

// writeProgram also creates the folder.
func writeProgram(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o755)); err != nil {
		t.Fatal(err)
	}
}

// unpackKernel unpacks the kernel, as Kata's is: an emulated processor would need half of the boot for it.
func unpackKernel(t *testing.T, base string) string {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join(base, "vmlinuz"))
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(packed, []byte("\xfd7zXZ\x00"))
	if at < 0 {
		t.Fatalf("the kernel in %s is not packed by xz", base)
	}
	unpack := exec.Command("xz", "--decompress", "--stdout", "--single-stream")
	unpack.Stdin = bytes.NewReader(packed[at:])
	kernel, err := unpack.Output()
	if err != nil {
		t.Fatalf("xz: %v", err)
	}
	path := filepath.Join(t.TempDir(), "vmlinux")
	writeProgram(t, path, kernel)
	return path
}

// guestModules are the modules that a machine needs for containers, for the network, and for ktsn-guest.
var guestModules = []string{"virtio_pci", "9pnet_virtio", "9p", "virtio_net", "virtio_console", "sch_ingress", "cls_bpf"}

// packInitrd packs the agent, as the first process, and the kernel's modules with a list of them, each after its
// dependencies.
func packInitrd(t *testing.T, base, agent string) string {
	t.Helper()
	root := t.TempDir()
	content, err := os.ReadFile(agent)
	if err != nil {
		t.Fatal(err)
	}
	writeProgram(t, filepath.Join(root, "init"), content)
	names := []string{"init", "modules"}
	var list strings.Builder
	for _, path := range modulesOf(t, base) {
		name := filepath.Base(path)
		if content, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		writeProgram(t, filepath.Join(root, name), content)
		names = append(names, name)
		fmt.Fprintln(&list, "/"+name)
	}
	writeProgram(t, filepath.Join(root, "modules"), []byte(list.String()))
	pack := exec.Command("cpio", "-o", "-H", "newc", "--quiet", "-D", root)
	pack.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	var archive, complaint bytes.Buffer
	pack.Stdout, pack.Stderr = &archive, &complaint
	if err := pack.Run(); err != nil {
		t.Fatalf("cpio: %v: %s", err, &complaint)
	}
	path := filepath.Join(t.TempDir(), "initrd")
	writeProgram(t, path, archive.Bytes())
	return path
}

func modulesOf(t *testing.T, base string) (paths []string) {
	t.Helper()
	releases, err := filepath.Glob(filepath.Join(base, "kernel/lib/modules/*"))
	if err != nil || len(releases) != 1 {
		t.Fatalf("%s has the modules of %q, %v", base, releases, err)
	}
	for _, module := range guestModules {
		output, err := exec.Command("modprobe", "-d", filepath.Join(base, "kernel"), "-S", filepath.Base(releases[0]), "--show-depends", module).Output()
		if err != nil {
			t.Fatalf("module %s: %v", module, err)
		}
		for line := range strings.Lines(string(output)) {
			if words := strings.Fields(line); len(words) > 1 && words[0] == "insmod" && !slices.Contains(paths, words[1]) {
				paths = append(paths, words[1])
			}
		}
	}
	return paths
}
