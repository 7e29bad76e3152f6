// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// oneNetwork is a cache that has a network whose status is as long as it may be, and gives copies to who does not want to only read it.
type oneNetwork struct {
	client.Reader
	network *v1alpha1.TSNNetwork
	nodes   []v1alpha1.TSNNode
}

func (o oneNetwork) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*v1alpha1.TSNNodeList).Items = o.nodes
	return nil
}

// Get returns the network, a RuntimeClass that is called as its handler, or a node that runs an agent unless its name says otherwise.
func (o oneNetwork) Get(_ context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	switch object := into.(type) {
	case *nodev1.RuntimeClass:
		object.Handler = key.Name
		return nil
	case *corev1.Node:
		if key.Name == "gone" {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, key.Name)
		}
		object.Name = key.Name
		if key.Name != "idle" {
			object.Labels = map[string]string{v1alpha1.NodeLabel: v1alpha1.LabelValue}
		}
		if key.Name != "down" {
			object.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}
		return nil
	}
	asked := (&client.GetOptions{}).ApplyOptions(options)
	if asked.UnsafeDisableDeepCopy != nil && *asked.UnsafeDisableDeepCopy {
		*into.(*v1alpha1.TSNNetwork) = *o.network
		return nil
	}
	o.network.DeepCopyInto(into.(*v1alpha1.TSNNetwork))
	return nil
}

// BenchmarkReview is what the webhook itself takes for a pod, without TLS and the API server.
func BenchmarkReview(b *testing.B) {
	network := &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "tsn"}}
	for i := range v1alpha1.MaxNodeProblems {
		network.Status.NodeProblems = append(network.Status.NodeProblems, v1alpha1.NodeProblem{Node: fmt.Sprint("node-", i), Type: v1alpha1.ConditionReady,
			Reason: v1alpha1.ReasonNodeWaited, Message: "it has not reported yet that it serves the network"})
	}
	pod, err := json.Marshal(parsePod(b, annotated("", `
  containers: [{name: app, image: app, env: [{name: A, value: b}], volumeMounts: [{name: data, mountPath: /data}], resources: {limits: {cpu: "1"}},
    readinessProbe: {httpGet: {port: 80, path: /}}}, {name: log, image: log}],
  volumes: [{name: data, emptyDir: {}}]`)))
	must(b, err)
	cache := oneNetwork{network: network}
	handler := &Handler{Cached: cache, Live: cache}
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "default", Object: runtime.RawExtension{Raw: pod}}}
	b.ReportAllocs()
	for b.Loop() {
		if response := handler.Handle(b.Context(), request); !response.Allowed || len(response.Patches) == 0 {
			b.Fatalf("%+v", response)
		}
	}
}
