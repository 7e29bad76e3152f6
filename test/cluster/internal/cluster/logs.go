// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// Logs copies the logs of a node's services, at most the last tail bytes of each. Service "" means all.
func (c *Cluster) Logs(host, service string, tail int64, to io.Writer) error {
	if _, err := c.Node(host); err != nil {
		return err
	}
	pattern := filepath.Join(c.Root(host), node.LogFile("*"))
	if service != "" {
		pattern = filepath.Join(c.Root(host), node.LogFile(service))
	}
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		return errors.Join(err, fmt.Errorf("%s has no log of service %q", host, service))
	}
	for _, file := range paths {
		text, err := readTail(file, tail)
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		fmt.Fprintf(to, "==== %s %s\n%s", host, strings.TrimSuffix(filepath.Base(file), ".log"), text)
	}
	return nil
}

func readTail(file string, tail int64) ([]byte, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	info, err := opened.Stat()
	if err != nil {
		return nil, err
	}
	if begin := info.Size() - tail; begin > 0 {
		if _, err := opened.Seek(begin, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(opened)
}

const (
	explainTail  = 64 << 10
	explainLines = 5
	explainTime  = 10 * time.Second
)

// important matches lines of klog, etcd, containerd and the Go runtime that report errors.
var important = regexp.MustCompile(`^([EF][0-9]{4} |panic:|fatal error:|Error:|.*level=(error|fatal)|.*"level":"(error|fatal)"|.*\] (E|C) \|)`)

// Explain returns an error with the last complaints of pods that do not run, or else of all services.
func (c *Cluster) Explain() error {
	var text strings.Builder
	if !c.explainPods(&text) {
		// Failing pods have the reason in their logs; the services' messages about them would only hide it.
		for _, host := range c.Nodes {
			c.explainServices(&text, host.Name)
		}
	}
	fmt.Fprintf(&text, "`ktsn-cluster --name %s logs` shows everything, `down` removes what there is", c.Name)
	return errors.New("last complaints:\n" + text.String())
}

func (c *Cluster) explainServices(text io.Writer, host string) {
	files, _ := filepath.Glob(filepath.Join(c.Root(host), node.LogFile("*"))) // the pattern is valid
	for _, file := range files {
		if lines := complaints(file); len(lines) > 0 {
			fmt.Fprintf(text, "---- %s %s\n%s\n", host, strings.TrimSuffix(filepath.Base(file), ".log"), strings.Join(lines, "\n"))
		}
	}
}

// complaints returns a log's last important lines, or its last lines.
func complaints(file string) []string {
	text, err := readTail(file, explainTail)
	if err != nil {
		return []string{err.Error()}
	}
	var all, bad []string
	for line := range bytes.Lines(bytes.TrimSpace(text)) {
		all = append(all, strings.TrimSpace(string(line)))
		if important.Match(line) {
			bad = append(bad, strings.TrimSpace(string(line)))
		}
	}
	if len(bad) == 0 {
		bad = all
	}
	return bad[max(0, len(bad)-explainLines):]
}

// explainPods prints which pods do not run, with their last output, and returns whether any had output.
func (c *Cluster) explainPods(text io.Writer) bool {
	ctx, cancel := context.WithTimeout(context.Background(), explainTime)
	defer cancel()
	client, err := c.Client()
	if err != nil {
		return false
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	written := false
	for _, pod := range pods.Items {
		if podReady(&pod) {
			continue
		}
		fmt.Fprintf(text, "---- pod %s/%s on %s: %s\n", pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Status.Phase)
		events, err := client.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod.Name + ",type=Warning"})
		if err != nil {
			return written
		}
		for _, event := range events.Items[max(0, len(events.Items)-explainLines):] {
			fmt.Fprintf(text, "%s: %s\n", event.Reason, event.Message)
		}
		written = c.explainContainers(text, &pod) || written
	}
	return written
}

// explainContainers prints the ends of the last logs of a pod's containers.
func (c *Cluster) explainContainers(text io.Writer, pod *corev1.Pod) bool {
	folder := fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID)
	containers, _ := filepath.Glob(filepath.Join(c.Root(pod.Spec.NodeName), "var", "log", "pods", folder, "*")) // the pattern is valid
	written := false
	for _, container := range containers {
		logs, _ := filepath.Glob(filepath.Join(container, "*.log")) // likewise
		if len(logs) == 0 {
			continue
		}
		lines := complaints(slices.MaxFunc(logs, newer))
		written = written || len(lines) > 0
		fmt.Fprintf(text, "%s:\n  %s\n", filepath.Base(container), strings.Join(lines, "\n  "))
	}
	return written
}

// newer orders a container's logs by their numbers: 0.log, 1.log, ...
func newer(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

func podReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || kube.Ready(pod)
}
