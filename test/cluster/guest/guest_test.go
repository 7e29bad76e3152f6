// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/components"
)

const (
	repository = "../../.."
	// patience bounds the run of the machine. It takes two minutes on an idle host, and a quarter of an hour next to the other suites of
	// `make e2e`, which have precedence.
	patience = 28 * time.Minute
	// csiKubelet is the folder of the kubelet that the chart's agent serves in the machine.
	csiKubelet = "/var/lib/csi-kubelet"
)

// All tests share one boot: the emulation takes most of the time.
func TestCgroupsVersion2(t *testing.T) {
	root := absolute(t, repository)
	built := build(t, root)
	machine := newMachine(t, root, 3072, built.Programs["kubernetes"], built.Programs["cniplugins"], pauseOf(t, built))
	renderChart(t, root, filepath.Join(machine.Out, "chart.yaml"), "--set-json", `ktsnd.extraArgs=["--cpu","1"]`, "--set", "kubeletDir="+csiKubelet)
	renderChart(t, root, filepath.Join(machine.Out, "exclusive.yaml"), "--set", "ktsnd.exclusiveCore=true")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	status, err := machine.Run(ctx, guestmachine.Command{
		Dir:       filepath.Join(root, "test/cluster/guest/inside"),
		Arguments: []string{testlab.Program(t, "ktsn-guest-tests"), "-test.v", "-test.timeout", patience.String()},
		Environment: []string{
			"KTSN_GUEST=" + guestmachine.OutDir, "KTSN_BIN_DIR=" + filepath.Dir(machine.First), "KTSN_IMAGES=" + filepath.Join(root, "out/images"),
			"KTSN_KUBERNETES_DIR=" + built.Programs["kubernetes"], "KTSN_PLUGINS=" + built.Programs["cniplugins"], "KTSN_PAUSE=" + pauseOf(t, built),
			"KTSN_CSI_KUBELET=" + csiKubelet,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	guestmachine.Report(t, &machine, status)
}

// newMachine returns a machine that sees the repository and the shown folders.
func newMachine(t *testing.T, root string, memoryMiB int, shown ...string) guestmachine.Machine {
	t.Helper()
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		testlab.Missing(t, "qemu-system-x86_64 is missing; run scripts/install-deps.sh cluster")
	}
	return guestmachine.Machine{
		Base: guestmachine.Kernel(t, root), First: testlab.Program(t, "ktsn-test-first"), Out: outDir(t), Processors: 2, MemoryMiB: memoryMiB,
		Shown: append([]string{root}, shown...),
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	absolute, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return absolute
}

// build builds kubelet, the reference plugins and the pause image, or takes them from the cache.
func build(t *testing.T, root string) *components.Built {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("KTSN_KUBERNETES_DIR") == "" {
		testlab.Missing(t, "KTSN_KUBERNETES_DIR names no folder with a kubelet; `make e2e` builds one")
	}
	builder := components.Builder{Repository: root, Cache: filepath.Join(cache, "ktsn-cluster"), Log: t.Logf, Stderr: os.Stderr}
	built, err := builder.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func pauseOf(t *testing.T, built *components.Built) string {
	t.Helper()
	for _, archive := range built.Images {
		if filepath.Base(archive) == "pause.tar" {
			return archive
		}
	}
	t.Fatalf("there is no image of pause among %q", built.Images)
	return ""
}

// outDir returns the folder for the machine's logs.
func outDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KTSN_GUEST_OUT")
	if dir == "" {
		return t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return absolute(t, dir)
}

func renderChart(t *testing.T, root, to string, values ...string) {
	t.Helper()
	arguments := append([]string{"template", "kubernetsn", filepath.Join(root, "charts/kubernetsn"), "--no-hooks", "--kube-version",
		strings.TrimPrefix(components.KubernetesVersion, "v"), "--values", filepath.Join(root, "out/images/values.yaml")}, values...)
	text, err := exec.CommandContext(t.Context(), testlab.Program(t, "helm"), arguments...).Output()
	if err != nil {
		t.Fatalf("helm: %v", err)
	}
	if err := os.WriteFile(to, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
