// SPDX-License-Identifier: Apache-2.0

package links

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// aPod is the folder of a pod's file, which says this.
func newPod(t *testing.T, content string) (h *Hosts, path string) {
	t.Helper()
	h = &Hosts{Dir: t.TempDir()}
	path = filepath.Join(h.Dir, "u1", "etc-hosts")
	testlab.Must(t, os.Mkdir(filepath.Dir(path), 0o755))
	testlab.Must(t, os.WriteFile(path, []byte(content), 0o644))
	return h, path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	testlab.Must(t, err)
	return string(text)
}

const kubelets = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.0.0.7\tapp\n"

func TestHostsSetInPlace(t *testing.T) {
	h, path := newPod(t, kubelets)
	before, err := os.Stat(path)
	testlab.Must(t, err)
	peers := []netip.Addr{netip.MustParseAddr("10.200.5.1"), netip.MustParseAddr("fd00::1")}
	for _, name := range []string{"up1", "up0"} {
		testlab.Must(t, h.Set("u1", name, peers, []string{"shop", "shop.default"}))
	}
	lines := "10.200.5.1\tshop\tshop.default\nfd00::1\tshop\tshop.default\n"
	if got := read(t, path); got != kubelets+hostsBegin+"\n"+lines+lines+hostsEnd+"\n" {
		t.Errorf("the file is %q", got)
	}
	for _, name := range []string{"up0", "up1"} {
		testlab.Must(t, h.Set("u1", name, nil, nil))
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("it is another file: %v", err)
	}
	if got := read(t, path); got != kubelets {
		t.Errorf("without links the file is %q", got)
	}
}

func TestHostsSetRejectsInvalidNames(t *testing.T) {
	h, path := newPod(t, kubelets)
	for _, name := range []string{"a b", "a\n127.0.0.1 bank", "", "-a", strings.Repeat("a", 300), "#a"} {
		err := h.Set("u1", "up0", []netip.Addr{netip.MustParseAddr("10.200.5.1")}, []string{name})
		if err == nil || !strings.Contains(err.Error(), "is not a valid host name") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got := read(t, path); got != kubelets {
		t.Errorf("the file is %q", got)
	}
}

// TestHostsOverwrittenInTheSameTick: kubelet's write can leave the modification time that the agent's write gave the file.
func TestHostsOverwrittenInTheSameTick(t *testing.T) {
	h, path := newPod(t, kubelets)
	testlab.Must(t, h.Set("u1", "up0", []netip.Addr{netip.MustParseAddr("10.200.5.1")}, []string{"shop"}))
	want := read(t, path)
	for _, look := range []string{"after Set", "after Look"} {
		about, err := os.Stat(path)
		testlab.Must(t, err)
		testlab.Must(t, os.WriteFile(path, []byte(kubelets), 0o644))
		testlab.Must(t, os.Chtimes(path, about.ModTime(), about.ModTime()))
		testlab.Must(t, h.Refresh())
		if got := read(t, path); got != want {
			t.Errorf("%s: the file is %q", look, got)
		}
	}
}

func TestHostsRefreshReportsProblemOnce(t *testing.T) {
	h, path := newPod(t, kubelets)
	testlab.Must(t, h.Set("u1", "up0", []netip.Addr{netip.MustParseAddr("10.200.5.1")}, []string{"shop"}))
	want := read(t, path)
	for look, reported := range []bool{true, false, false} {
		testlab.Must(t, os.Truncate(path, maxFileBytes+1))
		if err := h.Refresh(); (err != nil) != reported {
			t.Errorf("look %d: %v", look, err)
		}
	}
	// The pod is served again when its file is one of kubelet's; that does not let it fill the log either.
	testlab.Must(t, os.WriteFile(path, []byte(kubelets), 0o644))
	if err := h.Refresh(); err != nil || read(t, path) != want {
		t.Errorf("mended: %v, %q", err, read(t, path))
	}
	testlab.Must(t, os.Truncate(path, maxFileBytes+1))
	if err := h.Refresh(); err != nil {
		t.Errorf("reported again: %v", err)
	}
}

func TestHostsSetReplacesOldBlock(t *testing.T) {
	for name, left := range map[string]string{
		"whole":    kubelets + hostsBegin + "\n10.1.1.1\told\n" + hostsEnd + "\n",
		"cut off":  kubelets + hostsBegin + "\n10.1.1.1\told\n10.1.",
		"not last": kubelets[:33] + hostsBegin + "\n10.1.1.1\told\n" + hostsEnd + "\n" + kubelets[33:],
	} {
		t.Run(name, func(t *testing.T) {
			h, path := newPod(t, left)
			testlab.Must(t, h.Set("u1", "up0", []netip.Addr{netip.MustParseAddr("10.200.5.1")}, []string{"shop"}))
			if got := read(t, path); got != kubelets+hostsBegin+"\n10.200.5.1\tshop\n"+hostsEnd+"\n" {
				t.Errorf("the file is %q", got)
			}
			testlab.Must(t, (&Hosts{Dir: h.Dir}).Clean())
			if got := read(t, path); got != kubelets {
				t.Errorf("after cleaning the file is %q", got)
			}
		})
	}
}

func TestHostsSetWithoutFile(t *testing.T) {
	h := &Hosts{Dir: t.TempDir()}
	if err := h.Set("u9", "up0", []netip.Addr{netip.MustParseAddr("10.200.5.1")}, []string{"shop"}); err != nil {
		t.Error(err)
	}
	testlab.Must(t, os.Mkdir(filepath.Join(h.Dir, "u9"), 0o755))
	path := filepath.Join(h.Dir, "u9", "etc-hosts")
	testlab.Must(t, os.WriteFile(path, []byte(kubelets), 0o644))
	if err := h.Refresh(); err != nil || !strings.Contains(read(t, path), "10.200.5.1\tshop\n") {
		t.Errorf("%v, %q", err, read(t, path))
	}
}
