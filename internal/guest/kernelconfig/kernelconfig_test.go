// SPDX-License-Identifier: Apache-2.0

package kernelconfig

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func fragment(t *testing.T, parts ...Part) string {
	t.Helper()
	var text strings.Builder
	if err := WriteFragment(&text, parts); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestAKernelOfTheFragmentLacksNothing(t *testing.T) {
	config, err := Read(strings.NewReader(fragment(t, Parts...)))
	if err != nil {
		t.Fatal(err)
	}
	if missing := config.Missing(Parts); len(missing) > 0 {
		t.Errorf("it lacks %v", missing)
	}
	if text := fragment(t, Released); strings.Contains(text, "BPF") || !strings.Contains(text, "# released: transmit times (etf)\nCONFIG_NET_SCH_ETF=y\n") {
		t.Errorf("of one part it is\n%s", text)
	}
}

func TestMissingOptionsAreNamedOneByOne(t *testing.T) {
	config, err := Read(strings.NewReader("CONFIG_NET_SCH_TAPRIO=m\n# CONFIG_NET_SCH_ETF is not set\nCONFIG_NET_SCH_MQPRIO=n\nCONFIG_VLAN_8021Q=y\n"))
	if err != nil {
		t.Fatal(err)
	}
	missing := config.Missing([]Part{Released})
	if len(missing) != 2 || missing[0].Name != "NET_SCH_ETF" || missing[1].Name != "NET_SCH_MQPRIO" {
		t.Errorf("missing are %+v", missing)
	}
}

func TestAConfigurationMayBePacked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.gz")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(file)
	if _, err := packed.Write([]byte("CONFIG_IGB=m\n")); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if config, err := ReadFile(path); err != nil || !config["IGB"] {
		t.Errorf("it is read as %v, %v", config, err)
	}
}

func TestAFileThatIsNoConfigurationIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), path+": it is no kernel's configuration") {
		t.Errorf("it says %v", err)
	}
}

func TestNoOptionIsThereTwice(t *testing.T) {
	seen := map[string]bool{}
	for _, option := range Options {
		if seen[option.Name] || strings.HasPrefix(option.Name, "CONFIG_") || option.For == "" {
			t.Errorf("%+v", option)
		}
		seen[option.Name] = true
	}
}
