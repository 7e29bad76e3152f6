// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

const (
	managedBy = "app.kubernetes.io/managed-by"
	manager   = "ktsn-bench"
	// madeBy identifies the process that created the namespace, so that a later one on the same machine knows whether
	// it still runs.
	madeBy = "kubernetsn.io/bench-process"
	// podSecurity is the level that the namespace enforces.
	podSecurity = "pod-security.kubernetes.io/enforce"
	// removeTimeout limits the removal of the namespace.
	removeTimeout = 2 * time.Minute
	pollEvery     = 250 * time.Millisecond
)

// makeNamespace creates the namespace of the bench, after removing that of a killed bench.
func (c *connection) makeNamespace(ctx context.Context, hostNetwork bool, say func(string)) error {
	if err := c.sweep(ctx, say); err != nil {
		return err
	}
	level := "restricted"
	if hostNetwork {
		level = "privileged"
	}
	self, err := identify(os.Getpid())
	if err != nil {
		return err
	}
	err = c.core.Post().Resource("namespaces").Body(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace,
		Labels: map[string]string{managedBy: manager, podSecurity: level}, Annotations: map[string]string{madeBy: self}}}).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return c.inUse()
	}
	return c.explain("make namespace "+c.Namespace, err)
}

func (c *connection) inUse() error {
	return fmt.Errorf("namespace %s is in use: it is there already, and not of a bench that has ended; give another with --namespace, or "+
		"remove it", c.Namespace)
}

// sweep removes the namespace if an ended bench of this machine created it.
func (c *connection) sweep(ctx context.Context, say func(string)) error {
	existing, err := c.findNamespace(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return c.explain("look for namespace "+c.Namespace, err)
	}
	if existing.Labels[managedBy] != manager {
		return c.inUse()
	}
	if existing.DeletionTimestamp == nil && lives(existing.Annotations[madeBy]) {
		return c.inUse()
	}
	if err := c.removeNamespace(ctx); err != nil {
		return err
	}
	say(fmt.Sprintf("removed what an earlier bench left: namespace %s", c.Namespace))
	return nil
}

func (c *connection) findNamespace(ctx context.Context) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	return namespace, c.core.Get().Resource("namespaces").Name(c.Namespace).Do(ctx).Into(namespace)
}

// removeNamespace returns when namespace and pods are gone.
func (c *connection) removeNamespace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	doing := "remove namespace " + c.Namespace
	err := c.core.Delete().Resource("namespaces").Name(c.Namespace).Do(ctx).Error()
	for err == nil {
		_, err = c.findNamespace(ctx)
		if err == nil {
			err = retry.Pause(ctx, pollEvery)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: it is still there after %v; `kubectl get all -n %s` shows what holds it", doing, removeTimeout, c.Namespace)
	}
	return c.explain(doing, err)
}

// identify returns a permanently unique id of a process of this machine: boot, number, and start time.
func identify(pid int) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("identify this process: %w", err)
	}
	program, err := procfs.NewProc(pid)
	if err != nil {
		return "", fmt.Errorf("identify this process: %w", err)
	}
	stat, err := program.Stat()
	if err != nil {
		return "", fmt.Errorf("identify this process: %w", err)
	}
	return fmt.Sprintf("%s %d %d", strings.TrimSpace(string(boot)), pid, stat.Starttime), nil
}

// lives reports whether an identified process may still run: those of other machines may.
func lives(identity string) bool {
	fields := strings.Fields(identity)
	self, err := identify(os.Getpid())
	if err != nil || len(fields) != 3 || fields[0] != strings.Fields(self)[0] {
		return true
	}
	pid, err := strconv.Atoi(fields[1])
	if err != nil {
		return true
	}
	now, err := identify(pid)
	return err == nil && now == identity
}
