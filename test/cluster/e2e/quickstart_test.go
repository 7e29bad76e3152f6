// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/walkthrough"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// walkedPages are the pages whose commands are run, in this order. The last block of the first page removes everything, and is
// run last.
var walkedPages = []string{"quickstart.md", "applications.md", "install.md"}

// examplesNamespace is the namespace that applications.md creates.
const examplesNamespace = "timed"

// maxFirstPacket bounds the machine time from images to the first packets, which the block firstPacket sends.
const (
	maxFirstPacket = 10 * time.Minute
	firstPacket    = "talker"
)

// TestQuickstart runs the marked commands of the guide as a reader does, and compares their output with the pages.
func TestQuickstart(t *testing.T) {
	ctx := needTwoNodes(t)
	kubectl := filepath.Join(os.Getenv("KTSN_KUBERNETES_DIR"), "kubectl")
	if _, err := os.Stat(kubectl); err != nil {
		testlab.Missing(t, "needs kubectl in KTSN_KUBERNETES_DIR, which scripts/e2e.sh sets")
	}
	removeChart(ctx, t)
	before := currentState(ctx, t)
	namespace := newNamespace(ctx, t, privileged)
	shell := newGuideShell(t, namespace, kubectl)
	blocks := guideBlocks(t)
	removed := false
	t.Cleanup(func() {
		if !removed {
			deleteNamespace(t, namespace)
			deleteNamespace(t, examplesNamespace)
			output, err := helm(context.WithoutCancel(ctx), t, "uninstall", release, "--ignore-not-found", "--wait", "--timeout", "3m")
			t.Logf("removed after a failure: %v %s", err, output)
		}
	})
	seconds := map[string]float64{}
	began := time.Now()
	for _, block := range blocks {
		took := shell.walk(ctx, t, block)
		seconds[block.Name] = took.Seconds()
		t.Logf("%s: %.1f s", block.Name, took.Seconds())
		if block.Name != firstPacket {
			continue
		}
		seconds["until-first-packet"] = time.Since(began).Seconds()
		if took := time.Since(began); took > maxFirstPacket {
			t.Errorf("the first packets came after %v, want at most %v", took, maxFirstPacket)
		}
	}
	removed = true
	deleteNamespace(t, namespace)
	before.isRestored(ctx, t)
	writeFigures(t, seconds, "quickstart.json")
	if seconds["until-first-packet"] == 0 {
		t.Errorf("no block %s was run", firstPacket)
	}
}

// guideBlocks returns the blocks to run. A block that another page repeats is run once.
func guideBlocks(t *testing.T) []walkthrough.Block {
	t.Helper()
	var all []walkthrough.Block
	known := map[string]walkthrough.Block{}
	for _, name := range walkedPages {
		text, err := os.ReadFile(filepath.Join("../../../docs/guide", name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := walkthrough.Read(string(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, block := range blocks {
			if former, ok := known[block.Name]; ok {
				if former.Commands != block.Commands {
					t.Errorf("%s: block %s has other commands than on the page before", name, block.Name)
				}
				continue
			}
			known[block.Name] = block
			all = append(all, block)
		}
	}
	last := slices.IndexFunc(all, func(block walkthrough.Block) bool { return block.Name == "remove" })
	if last < 0 {
		t.Fatal("quickstart.md has no block remove")
	}
	remove := all[last]
	return append(slices.Delete(all, last, last+1), remove)
}

// guideShell runs commands in a folder, with the variables of the commands before.
type guideShell struct {
	folder      string
	environment []string
}

// newGuideShell prepares what the pages presuppose: the variables, my-values.yaml, and the cluster's administrator as the
// user of kubectl, helm and ktsn, in a namespace of its own.
func newGuideShell(t *testing.T, namespace, kubectl string) *guideShell {
	t.Helper()
	folder := t.TempDir()
	images, err := os.ReadFile("../../../out/images/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// The nodes share the machine's processors and real-time budget; see clusterValues.
	values := fmt.Sprintf("%s\nktsnd: {cgroupV1: %v, realtimeShare: 18, extraArgs: [\"--cpu\", \"0\"]}\nagent: {sweepEvery: 3s}\n",
		images, cgroups.RealtimeDivided())
	testlab.Must(t, os.WriteFile(filepath.Join(folder, "my-values.yaml"), []byte(values), 0o600))
	credentials, err := clientcmd.LoadFromFile(under.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	credentials.Contexts[credentials.CurrentContext].Namespace = namespace
	kubeconfig := filepath.Join(folder, "kubeconfig")
	testlab.Must(t, clientcmd.WriteToFile(*credentials, kubeconfig))
	home := filepath.Join(folder, "helm")
	return &guideShell{folder, append(os.Environ(),
		"PATH="+strings.Join([]string{testlab.BinDir(t), filepath.Dir(kubectl), os.Getenv("PATH")}, ":"), "KUBECONFIG="+kubeconfig,
		"HELM_NAMESPACE="+metav1.NamespaceDefault, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home,
		"CHART="+chartFolder(t), "IMAGES=localhost/kubernetsn", "TAG=dev")}
}

// walk runs a block, compares its output, and returns how long it took.
func (s *guideShell) walk(ctx context.Context, t *testing.T, block walkthrough.Block) time.Duration {
	t.Helper()
	began := time.Now()
	attempt := func(ctx context.Context) error {
		stdout, stderr, err := s.run(ctx, block.Commands)
		if err != nil {
			return fmt.Errorf("%w: %s%s", err, stdout, stderr)
		}
		if block.Output == "" {
			return nil
		}
		if err := walkthrough.Match(block.Output, stdout); err != nil {
			return fmt.Errorf("%w: %s%s", err, stdout, stderr)
		}
		return nil
	}
	var err error
	if block.Repeat {
		patient, cancel := context.WithTimeout(ctx, patience)
		err = kube.Wait(patient, attempt)
		cancel()
	} else {
		err = attempt(ctx)
		// A ready webhook is reachable only once kube-proxy knows it.
		for tries := 0; err != nil && tries < 5 && strings.Contains(err.Error(), "failed calling webhook"); tries++ {
			time.Sleep(time.Second)
			err = attempt(ctx)
		}
	}
	if err != nil {
		t.Fatalf("block %s: %v", block.Name, err)
	}
	return time.Since(began)
}

// run runs commands, and keeps their variables for the next ones.
func (s *guideShell) run(ctx context.Context, commands string) (stdout, stderr string, err error) {
	const script = "set -eu -o allexport\n[ ! -f variables ] || . ./variables\neval \"$1\"\nexport -p >variables\n"
	command := exec.CommandContext(ctx, "bash", "-c", script, "bash", commands)
	command.Dir, command.Env = s.folder, s.environment
	var out, complaints bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaints
	err = command.Run()
	return out.String(), complaints.String(), err
}
