// SPDX-License-Identifier: Apache-2.0

// Package clustertest has what the tests of clusters and of federations share: the cluster that the environment names, and the traces of
// a removed cluster.
package clustertest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/asker"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cluster"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/network"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// Name returns the name of the cluster under test from an environment variable. hint says how to start one.
func Name(variable, hint string) (string, error) {
	// The script that tried to start a cluster knows best why there is none.
	if reason := os.Getenv("KTSN_NO_CLUSTER"); reason != "" {
		return "", errors.New(reason)
	}
	name := os.Getenv(variable)
	if name == "" {
		return "", fmt.Errorf("%s is not set; %s", variable, hint)
	}
	return name, nil
}

// Patience bounds everything that takes seconds on an idle machine.
const Patience = 2 * time.Minute

// Await repeats a question until it returns nil. After Patience it fails the test with the last error.
func Await(ctx context.Context, t *testing.T, question func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if err := kube.Wait(ctx, question); err != nil {
		t.Fatal(err)
	}
}

// BringAsker copies the asker, which no image contains, to a cluster's nodes until the test ends.
func BringAsker(ctx context.Context, t *testing.T, to *cluster.Cluster) {
	t.Helper()
	for _, host := range to.Nodes {
		if err := asker.Bring(ctx, to.Place(host.Name), testlab.Program(t, "ktsn-test-asker")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := node.Output(context.WithoutCancel(ctx), to.Place(host.Name), nil, "rm", "-rf", asker.Folder); err != nil {
				t.Error(err)
			}
		})
	}
}

// Rows returns the records of an asker in a container of a pod.
func Rows(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, container string) ([]asker.Row, error) {
	text, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container}).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	return asker.Read(string(text))
}

// Other is another cluster or hub than the one under test.
type Other struct {
	*plan.Plan
	program string
}

// NewOther returns a cluster or hub with a plan, which has not been started.
func NewOther(t *testing.T, p *plan.Plan) *Other {
	t.Helper()
	return &Other{p, testlab.Program(t, "ktsn-cluster")}
}

// Command returns a call of ktsn-cluster for it, which ends with the test.
func (o *Other) Command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, o.program, append([]string{"--name", o.Name, "--dir", Dir()}, arguments...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

// IsGone fails the test unless nothing is left of it.
func (o *Other) IsGone(t *testing.T) {
	t.Helper()
	left, err := leftovers(o.Plan)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left: %s", strings.Join(left, "\n      "))
	}
}

// Kill kills programs on all nodes of a cluster. Some may not run.
func Kill(ctx context.Context, t *testing.T, in *cluster.Cluster, names ...string) {
	t.Helper()
	for _, name := range names {
		for _, host := range in.Nodes {
			if _, err := node.Output(ctx, in.Place(host.Name), nil, "sh", "-c", "pkill -KILL -x "+name+" || [ $? -eq 1 ]"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// RenewPods replaces pods of a namespace whose container was restarted, because kubelet's back-off grows with each
// restart, and waits until all pods that run are ready.
func RenewPods(ctx context.Context, t *testing.T, client kubernetes.Interface, namespace string) {
	t.Helper()
	pods := client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := map[types.UID]bool{}
	for i := range list.Items {
		if pod := &list.Items[i]; kube.Restarts(pod) > 0 {
			old[pod.UID] = true
			if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	Await(ctx, t, func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if pod := &list.Items[i]; old[pod.UID] || !kube.Ready(pod) && pod.Status.Phase == corev1.PodRunning {
				return fmt.Errorf("%s is not ready, or that of before", pod.Name)
			}
		}
		return nil
	})
}

// Dir returns the folder of all clusters.
func Dir() string { return cmp.Or(os.Getenv("KTSN_CLUSTER_DIR"), cluster.DefaultDir) }

// leftovers lists everything that belongs to a cluster on this machine.
func leftovers(p *plan.Plan) ([]string, error) {
	left := network.Left(p)
	folders, err := cgroups.Find(p.Cgroup())
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		left = append(left, "cgroup "+folder)
	}
	if _, err := os.Stat(p.Dir); !errors.Is(err, os.ErrNotExist) {
		left = append(left, "files "+p.Dir)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	if strings.Contains(string(mounts), p.Dir) || strings.Contains(string(mounts), p.Prefix()) {
		left = append(left, "mounts")
	}
	running, err := processes(p)
	return append(left, running...), err
}

// processes returns the processes that are in the cluster's cgroups or name its folder. Zombies do not count.
func processes(p *plan.Plan) ([]string, error) {
	var names []string
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		cgroup, _ := os.ReadFile(filepath.Join(folder, "cgroup"))   // it may have ended
		command, _ := os.ReadFile(filepath.Join(folder, "cmdline")) // likewise
		root, _ := os.Readlink(filepath.Join(folder, "root"))       // likewise
		if ended(folder) {
			continue
		}
		if strings.Contains(string(cgroup), p.Prefix()) || bytes.Contains(command, []byte(p.Dir)) || strings.HasPrefix(root, p.Dir) {
			names = append(names, fmt.Sprintf("process %s %q", filepath.Base(folder), command))
		}
	}
	return names, nil
}

// ended reports whether the process of a folder in /proc is a zombie or gone.
func ended(folder string) bool {
	status, err := os.ReadFile(filepath.Join(folder, "status"))
	return err != nil || strings.Contains(string(status), "\nState:\tZ")
}
