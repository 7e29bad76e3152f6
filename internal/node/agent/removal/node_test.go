// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/install"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// newNode is a node on which two networks and the plugin are installed, with the files of others beside them.
func newNode(t *testing.T) (n *Node, root string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("looking at the kernel's interfaces needs root")
	}
	leaveMachine(t)
	root = t.TempDir()
	in := func(path string) string { return filepath.Join(root, path) }
	n = &Node{
		StateDir: in("state"), RunDir: in("run"), IPAMDir: in("ipam"), PluginDir: "/plugins", ConfDir: "/conf",
		Installed: &install.Node{Root: root, List: "/state/installed.json"},
		Further:   []string{in("kubelet/driver"), in("kubelet/reg.sock")}, Out: &bytes.Buffer{},
	}
	for _, path := range []string{"/plugins/tsn-cni", "/conf/tsn.conf", "/conf/second.conf"} {
		if _, err := n.Installed.File(path, []byte(path), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{
		"plugins/other": "theirs", "conf/other.conf": "theirs", "ipam/other/10.1.0.1": "theirs",
		"ipam/tsn/lock": "", "ipam/tsn/last_reserved_ip.0": "10.42.0.9", "ipam/second/lock": "",
		"run/control.sock": "", "kubelet/driver/csi.sock": "", "kubelet/reg.sock": "",
	} {
		write(t, in(path), text)
	}
	return n, root
}

// leaveMachine puts the test's thread into namespaces of its own: Clean removes the filter, the keys and the program for receive rings of the
// node that it runs on.
func leaveMachine(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // and the thread ends with the test
	err := errors.Join(unix.Unshare(unix.CLONE_NEWNET|unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""),
		unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, ""))
	testlab.Must(t, err)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	testlab.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testlab.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

// files are those below a folder.
func files(t *testing.T, root string) []string {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Name() != ".lock" {
			all[strings.TrimPrefix(path, root+"/")] = true
		}
		return err
	})
	testlab.Must(t, err)
	return slices.Sorted(maps.Keys(all))
}

var theirs = []string{"conf/other.conf", "ipam/other/10.1.0.1", "plugins/other"}

func TestCleanRemovesOnlyInstalled(t *testing.T) {
	n, root := newNode(t)
	for range 2 { // what is clean may be cleaned
		testlab.Must(t, n.Clean(t.Context()))
		if left := files(t, root); !slices.Equal(left, theirs) {
			t.Errorf("left are %q, want %q", left, theirs)
		}
	}
	for _, dir := range []string{"state", "run", "ipam/tsn", "ipam/second", "kubelet/driver"} {
		if _, err := os.Stat(filepath.Join(root, dir)); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
}

func TestCleanCanBeRepeated(t *testing.T) {
	for _, obstacle := range []string{"ipam/second", "run", "kubelet/driver", "conf", "state"} {
		t.Run(obstacle+" cannot be removed", func(t *testing.T) {
			n, root := newNode(t)
			// A mount point cannot be removed, not even by root.
			path := filepath.Join(root, obstacle)
			if obstacle == "conf" {
				path = filepath.Join(path, "tsn.conf")
			}
			if obstacle == "state" {
				path = filepath.Join(path, "held")
				write(t, path, "")
			}
			if err := syscall.Mount(path, path, "", syscall.MS_BIND, ""); err != nil {
				t.Skipf("cannot mount: %v", err)
			}
			unmount := func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) }
			t.Cleanup(unmount)
			if err := n.Clean(t.Context()); err == nil || !strings.Contains(err.Error(), "remove ") {
				t.Fatalf("cleaned in spite of that: %v", err)
			}
			unmount()
			testlab.Must(t, n.Clean(t.Context()))
			if left := files(t, root); !slices.Equal(left, theirs) {
				t.Errorf("left are %q, want %q", left, theirs)
			}
		})
	}
}

func TestCleanRefusesUsedNode(t *testing.T) {
	for name, test := range map[string]struct{ path, text, sentence string }{
		"a volume": {"run/volumes/1", `{"id":"1","target":"/t","uid":"u","namespace":"default","pod":"p"}`,
			"pod default/p has a volume, /t; remove the pod first"},
		"a volume that cannot be read": {"run/volumes/1", `{`, "remove the file when no pod has that volume"},
		"an address":                   {"ipam/tsn/10.42.0.7", "container", "address 10.42.0.7 in "},
	} {
		t.Run(name, func(t *testing.T) {
			n, root := newNode(t)
			write(t, filepath.Join(root, test.path), test.text)
			before := files(t, root)
			if err := n.Clean(t.Context()); err == nil || !strings.Contains(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q", err, test.sentence)
			}
			if after := files(t, root); !slices.Equal(after, before) {
				t.Errorf("there are %q, before there were %q", after, before)
			}
		})
	}
}

// The runtime gives addresses back by itself when a pod was deleted a moment ago, and needs the plugin for it until then.
func TestCleanWaitsForRuntime(t *testing.T) {
	n, root := newNode(t)
	n.Wait = time.Minute
	address := filepath.Join(root, "ipam/tsn/10.42.0.7")
	write(t, address, "container")
	done := make(chan error, 1)
	time.AfterFunc(2*pollInterval, func() {
		_, err := os.Stat(filepath.Join(root, "plugins/tsn-cni"))
		done <- errors.Join(err, os.Remove(address))
	})
	testlab.Must(t, n.Clean(t.Context()))
	if err := <-done; err != nil {
		t.Error(err)
	}
	if left := files(t, root); !slices.Equal(left, theirs) {
		t.Errorf("left are %q, want %q", left, theirs)
	}
}

// The runtime may have forgotten a pod that was deleted since then: neither its interface nor its address is freed.
func TestCleanWithoutPods(t *testing.T) {
	for name, record := range map[string]string{
		"an address":    "",
		"an attachment": `{"version":1,"network":"kubernetsn-links","containerID":"c","interface":"tsn0","identity":"uid","netns":"/","vni":42,"bridge":"b","tunnel":"t","sandbox":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			n, root := newNode(t)
			write(t, filepath.Join(root, "ipam/tsn/10.42.0.7"), "c")
			if record != "" {
				write(t, filepath.Join(root, "state/attachments/"+attachment.SandboxNetwork+"/c:tsn0"), record)
			}
			if err := n.Clean(t.Context()); err == nil {
				t.Error("cleaned while something is attached")
			}
			n.NoPods, n.Pods = true, []string{"uid"}
			if err := n.Clean(t.Context()); record != "" && (err == nil || !strings.Contains(err.Error(), "remove its pod first")) {
				t.Errorf("of a pod that exists it said %v", err)
			}
			n.Pods = []string{"another"}
			testlab.Must(t, n.Clean(t.Context()))
			if left := files(t, root); !slices.Equal(left, theirs) {
				t.Errorf("left are %q, want %q", left, theirs)
			}
		})
	}
}
