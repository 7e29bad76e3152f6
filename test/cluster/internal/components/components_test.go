// SPDX-License-Identifier: Apache-2.0

package components

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBuildKey(t *testing.T) {
	module := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	key := func(c component) string {
		sum, err := c.key(module)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	write("go.mod", "require a v1")
	first := key(component{name: "a"})
	if key(component{name: "a"}) != first {
		t.Error("it changes by itself")
	}
	if key(component{name: "a", tags: "x"}) == first {
		t.Error("another way to build has the same")
	}
	write("go.mod", "require a v2")
	if key(component{name: "a"}) == first {
		t.Error("another version has the same")
	}
}

func TestModuleVersions(t *testing.T) {
	for component, want := range map[string]string{
		Kubernetes: "k8s.io/kubernetes " + KubernetesVersion + " ",
		Karmada:    karmadaModule + " " + KarmadaVersion + " ",
	} {
		text, err := os.ReadFile("../../components/" + component + "/go.mod")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s/go.mod does not require %q", component, want)
		}
	}
}

func TestCacheHasOnlyCompleteBuilds(t *testing.T) {
	b := &Builder{Cache: filepath.Join(t.TempDir(), "cache")}
	fails := errors.New("no compiler")
	if _, err := b.cached("a", "1", func(to string) error {
		_ = os.WriteFile(filepath.Join(to, "half"), nil, 0o644) // what a failed build leaves
		return fails
	}); !errors.Is(err, fails) {
		t.Errorf("got %v", err)
	}
	builds := 0
	for range 2 {
		folder, err := b.cached("a", "1", func(to string) error {
			builds++
			return os.WriteFile(filepath.Join(to, "program"), nil, 0o755)
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(folder, "program")); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(folder, "half")); err == nil {
			t.Error("it has what a failed build left")
		}
	}
	if builds != 1 {
		t.Errorf("it was built %d times", builds)
	}
	entries, err := os.ReadDir(b.Cache)
	if err != nil || len(entries) != 1 {
		t.Errorf("the cache has %v, %v", entries, err)
	}
}
