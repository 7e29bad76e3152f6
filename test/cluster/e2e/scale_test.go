// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// disturbances happen to the nodes while the pods of a round exist.
var disturbances = []struct {
	name string
	do   func(context.Context, *testing.T)
}{
	{"the kubelets are restarted", func(ctx context.Context, t *testing.T) { restartEverywhere(ctx, t, "kubelet") }},
	{"containerd is restarted", func(ctx context.Context, t *testing.T) { restartEverywhere(ctx, t, "containerd") }},
	{"Multus is restarted", restartMultus},
}

func TestTwentyPodsComeAndGoThreeTimesAndLeaveNothing(t *testing.T) {
	ctx := needTSN(t)
	namespace := tsnNamespace(ctx, t, restricted)
	before := inventories(ctx, t)
	const many = 20
	makeDeployment(ctx, t, namespace, "many", many)
	for i, disturbance := range disturbances {
		t.Run(disturbance.name, func(t *testing.T) {
			if i > 0 {
				scale(ctx, t, namespace, "many", many)
			}
			waitForReplicas(ctx, t, namespace, "many", many)
			disturbance.do(ctx, t)
			waitForReplicas(ctx, t, namespace, "many", many)
			oneReachesAnother(ctx, t, namespace)
			isSeen(ctx, t, before, many)
			scale(ctx, t, namespace, "many", 0)
			waitForReplicas(ctx, t, namespace, "many", 0)
			leavesNothing(ctx, t, before)
			for _, host := range under.Nodes {
				if status := statusOn(ctx, t, host.Name); status.Endpoints != 0 || status.Sockets != 0 {
					t.Errorf("%s: ktsnd still has %d endpoints and %d sockets", host.Name, status.Endpoints, status.Sockets)
				}
			}
		})
	}
}

func makeDeployment(ctx context.Context, t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	pod := onTSN(agnhost(name, ""))
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		},
	}
	deployment.Spec.Template.Name = ""
	if _, err := client.AppsV1().Deployments(namespace).Create(ctx, deployment, createOptions); err != nil {
		t.Fatal(err)
	}
}

func scale(ctx context.Context, t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	_, err := client.AppsV1().Deployments(namespace).UpdateScale(ctx, name, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
	}, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// waitForReplicas waits until that many pods are ready and there are no others.
func waitForReplicas(ctx context.Context, t *testing.T, namespace, name string, replicas int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	err := kube.Wait(ctx, func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return err
		}
		ready, why := 0, ""
		for _, pod := range pods.Items {
			if podReady(&pod) {
				ready++
			} else {
				why = pod.Name + ": " + lastEvents(ctx, namespace, pod.Name)
			}
		}
		if ready != replicas || len(pods.Items) != replicas {
			return fmt.Errorf("%d pods, %d of them ready, want %d; %s", len(pods.Items), ready, replicas, why)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// oneReachesAnother sends a request from a pod on the first node to one on the second.
func oneReachesAnother(ctx context.Context, t *testing.T, namespace string) {
	t.Helper()
	var pods []*corev1.Pod
	for _, host := range under.Nodes[:2] {
		list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + host.Name})
		if err != nil || len(list.Items) == 0 {
			t.Fatalf("%d pods on %s: %v", len(list.Items), host.Name, err)
		}
		pods = append(pods, &list.Items[0])
	}
	to, to6 := tsnAddresses(t, pods[1])
	reaches(ctx, t, pods[0], pods[1], to.String())
	reaches(ctx, t, pods[0], pods[1], to6.String())
}

func restartEverywhere(ctx context.Context, t *testing.T, service string) {
	t.Helper()
	for _, host := range under.Nodes {
		if err := under.RestartService(ctx, host.Name, service); err != nil {
			t.Fatal(err)
		}
	}
	waitForNodes(ctx, t)
}

func waitForNodes(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := kube.Wait(ctx, kube.NodesReady(client, len(under.Nodes))); err != nil {
		t.Fatal(err)
	}
}

// restartMultus replaces Multus' pods.
func restartMultus(ctx context.Context, t *testing.T) {
	t.Helper()
	err := client.CoreV1().Pods(metav1.NamespaceSystem).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=multus"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = kube.Wait(ctx, func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "app=multus"})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.DeletionTimestamp != nil {
				return fmt.Errorf("%s has not ended yet", pod.Name)
			}
		}
		return kube.SystemReady(client, len(under.Nodes))(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
}
