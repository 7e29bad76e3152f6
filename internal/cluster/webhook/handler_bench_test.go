// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// oneNetwork is a cache that has a network whose status is as long as it may be, and gives copies to who does not want to only read it.
type oneNetwork struct {
	client.Reader
	network *v1alpha1.TSNNetwork
}

func (o oneNetwork) Get(_ context.Context, _ client.ObjectKey, into client.Object, options ...client.GetOption) error {
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
