// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

const statusPatience = 5 * time.Second

// Status prints the state of the cluster.
func (c *Cluster) Status(ctx context.Context, to io.Writer) error {
	state := "up"
	if !c.Ready() {
		state = "not completely started"
	}
	fmt.Fprintf(to, "cluster     %s, %s\nAPI server  %s\nkubeconfig  %s\nfiles       %s\n", c.Name, state, c.Server(), c.Kubeconfig(), c.Dir)
	for _, host := range c.Nodes {
		fmt.Fprintf(to, "%-11s %s, %s, network namespace %s\n", host.Name, host.Address, node.Status(ctx, c.Place(host.Name)), c.Namespace(host.Name))
		c.printServices(ctx, host.Name, to)
	}
	return c.printPods(ctx, to)
}

// printServices prints runsvdir's status of each service.
func (c *Cluster) printServices(ctx context.Context, host string, to io.Writer) {
	folders, _ := filepath.Glob(filepath.Join(c.Root(host), "etc", "service", "*")) // the pattern is valid
	for _, folder := range folders {
		state, err := os.ReadFile(filepath.Join(folder, "supervise", "stat"))
		if err != nil || node.Status(ctx, c.Place(host)) != "running" {
			state = []byte("down")
		}
		fmt.Fprintf(to, "  %-24s %s\n", filepath.Base(folder), strings.TrimSpace(string(state)))
	}
}

func (c *Cluster) printPods(ctx context.Context, to io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	client, err := c.Client()
	if err != nil {
		return err
	}
	if err := kube.ControlPlaneReady(client)(ctx); err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for _, pod := range pods.Items {
		state := string(pod.Status.Phase)
		if state == "Running" && !podReady(&pod) {
			state = "Running, not ready"
		}
		fmt.Fprintf(to, "pod         %s/%s, %s, %s\n", pod.Namespace, pod.Name, pod.Spec.NodeName, state)
	}
	return nil
}
