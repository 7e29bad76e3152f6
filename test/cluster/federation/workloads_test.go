// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/components"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// apply applies manifests at the hub or in a member.
func (p *place) apply(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	applier, err := kube.NewApplier(p.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := applier.Apply(ctx, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

// newNamespace creates a namespace at the hub, which Karmada creates in all members. When the test ends, Karmada
// removes it there too, without anybody waiting.
func newNamespace(ctx context.Context, t *testing.T) string {
	t.Helper()
	name := "federation-" + rand.String(5)
	t.Cleanup(func() {
		err := hub.client.CoreV1().Namespaces().Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	_, err := hub.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range members {
		await(ctx, t, func(ctx context.Context) error {
			_, err := member.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			return err
		})
	}
	return name
}

// deployment returns a Deployment of idling pods.
func deployment(namespace, name string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: %[1]s, name: %[2]s, labels: {app: %[2]s}}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      terminationGracePeriodSeconds: 0
      automountServiceAccountToken: false
      containers:
        - {name: agnhost, image: "kubernetsn.io/agnhost:%[4]s", imagePullPolicy: Never, args: [pause]}
`, namespace, name, replicas, components.Tag)
}

// everywhere returns a policy that puts all replicas of a Deployment into each member.
func everywhere(namespace, name string) string {
	return fmt.Sprintf(`
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {namespace: %[1]s, name: %[2]s}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: %[2]s}]
  placement: {clusterAffinity: {}}
`, namespace, name)
}

// now returns a Deployment.
func (p *place) now(ctx context.Context, namespace, name string) (*appsv1.Deployment, error) {
	return p.client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
}

// without returns a question for await: whether a Deployment is gone.
func (p *place) without(namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := p.now(ctx, namespace, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(fmt.Errorf("%s still has Deployment %s", p.Name, name), err)
	}
}

// configMaps returns a manifest of count ConfigMaps.
func configMaps(name string, count int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-%d}\ndata: {number: '%d'}\n", name, i, i)
	}
	return text.String()
}

// hasConfigMaps returns a question for await: whether that many ConfigMaps with the prefix exist.
func (p *place) hasConfigMaps(namespace, prefix string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := p.client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		count := 0
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].Name, prefix) {
				count++
			}
		}
		if count != want {
			return fmt.Errorf("%s: %d ConfigMaps %s... are there, want %d", p.Name, count, prefix, want)
		}
		return nil
	}
}

// runs returns a question for await: whether that many pods of a Deployment are ready, and no others exist.
func (p *place) runs(namespace, name string, replicas int32) func(context.Context) error {
	return func(ctx context.Context) error {
		deployment, err := p.now(ctx, namespace, name)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if deployment.Status.ObservedGeneration < deployment.Generation || deployment.Status.ReadyReplicas != replicas || deployment.Status.Replicas != replicas {
			return fmt.Errorf("%s: Deployment %s has %d pods, of which %d are ready, want %d", p.Name, name,
				deployment.Status.Replicas, deployment.Status.ReadyReplicas, replicas)
		}
		return nil
	}
}

// pods returns the pods of a Deployment.
func (p *place) pods(ctx context.Context, t *testing.T, namespace, name string) []corev1.Pod {
	t.Helper()
	list, err := p.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// heals deletes a Deployment's pods and waits until others have replaced them.
func (p *place) heals(ctx context.Context, t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	old := map[string]bool{}
	for _, pod := range p.pods(ctx, t, namespace, name) {
		old[pod.Name] = true
		if err := p.client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await(ctx, t, func(ctx context.Context) error {
		for _, pod := range p.pods(ctx, t, namespace, name) {
			if old[pod.Name] {
				return fmt.Errorf("%s: pod %s is still there", p.Name, pod.Name)
			}
		}
		return p.runs(namespace, name, replicas)(ctx)
	})
}

// took logs how long do takes.
func took(t *testing.T, what string, do func()) time.Duration {
	t.Helper()
	began := time.Now()
	do()
	elapsed := time.Since(began)
	t.Logf("%s: %.2f s", what, elapsed.Seconds())
	return elapsed
}
