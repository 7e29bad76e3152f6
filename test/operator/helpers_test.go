// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/operator"
	"github.com/kubernetsn/kubernetsn/internal/cluster/webhook"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

const system = "kubernetsn-system"

// linger and agentPatience are short, so that tests see what happens after them.
const (
	linger        = 500 * time.Millisecond
	agentPatience = 2 * time.Second
)

var (
	operatorOnce sync.Once
	errOperator  error
	operatorPort int
	// endOperator ends it before the API server goes, whose absence it would complain of.
	endOperator = func() {}
)

// needOperator is needServer with an operator that has its certificate, and the rights that the chart gives it.
func needOperator(t testing.TB) context.Context {
	t.Helper()
	if _, err := os.Stat(helm); err != nil {
		testlab.Missing(t, "bin/helm is missing; `make helm` builds it")
	}
	ctx := needServer(t)
	operatorOnce.Do(func() { errOperator = startOperator(context.WithoutCancel(ctx)) })
	if errOperator != nil {
		t.Fatal(errOperator)
	}
	return ctx
}

// startOperator starts one that runs until endOperator is called.
func startOperator(ctx context.Context) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	operatorPort = port
	// A test without an operator may have made it.
	if err := admin.Create(ctx, newNamespace(system, nil)); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "ktsn-operator-certificate", Namespace: system}},
		webhookConfiguration("kubernetsn", port),
	} {
		if err := admin.Create(ctx, object); err != nil {
			return err
		}
	}
	if err := applyChart(ctx, "operator-rbac.yaml"); err != nil {
		return err
	}
	options := &operator.Options{
		Namespace: system, Service: "ktsn-operator", Secret: "ktsn-operator-certificate", Webhook: "kubernetsn", Port: port,
		Health: "127.0.0.1:0", Metrics: "0", Linger: linger, CertificateName: "localhost",
		AgentTimeout: agentPatience, WaitImage: "none", EncryptedPort: v1alpha1.DefaultEncryptedPort,
	}
	minimum := flag.NewFlagSet("minimum", flag.ContinueOnError)
	options.Minimum.AddFlags(minimum)
	if err := minimum.Parse([]string{"--encryption-minimum-of=floor=Required", "--encryption-minimum-of=floor-links/floor=Required"}); err != nil {
		return err
	}
	ended, finished := make(chan error, 1), make(chan struct{})
	run, cancel := context.WithCancel(ctx)
	endOperator = func() {
		cancel()
		<-finished
	}
	go func() {
		defer close(finished)
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		ended <- operator.Run(run, options, accountOf("ktsn-operator"), func() int64 { return time.Now().UnixNano() }, log)
	}()
	return within(ctx, func() error {
		select {
		case err := <-ended:
			return fmt.Errorf("the operator has ended: %w", err)
		default:
		}
		probe := plainPod("probe", "default")
		probe.Annotations = map[string]string{v1alpha1.NetworkAnnotation: "none"}
		if err := admin.Create(ctx, probe, client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the webhook does not answer: %w", err)
		}
		return nil
	})
}

func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// webhookConfiguration is the chart's, with an address instead of a Service.
func webhookConfiguration(name string, port int) *admissionv1.MutatingWebhookConfiguration {
	url := fmt.Sprintf("https://localhost:%d%s", port, webhook.Path)
	none, fail, again := admissionv1.SideEffectClassNone, admissionv1.Fail, admissionv1.IfNeededReinvocationPolicy
	return &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "pods.kubernetsn.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
			ReinvocationPolicy: &again,
			ClientConfig:       admissionv1.WebhookClientConfig{URL: &url},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			MatchConditions: []admissionv1.MatchCondition{{
				Name: "annotated-or-linked",
				Expression: "object.metadata.?annotations.orValue({}).exists(key, key.startsWith('kubernetsn.io/')) || object.metadata.?labels.orValue({}).exists(label, " +
					"label.startsWith('" + v1alpha1.ClientLabelPrefix + "') || label.startsWith('" + v1alpha1.EndpointLabelPrefix + "'))",
			}},
		}},
	}
}

// within repeats a look until it finds nothing wrong.
func within(ctx context.Context, look func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := look()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func eventually(ctx context.Context, t *testing.T, look func() error) {
	t.Helper()
	must(t, within(ctx, look))
}

// await reads an object until check accepts it.
func await(ctx context.Context, t *testing.T, object client.Object, check func() error) {
	t.Helper()
	eventually(ctx, t, func() error {
		if err := get(ctx, object); err != nil {
			return err
		}
		return check()
	})
}

func create(ctx context.Context, t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := admin.Create(ctx, object); err != nil {
			t.Fatalf("make %T: %v", object, err)
		}
		t.Cleanup(func() { remove(context.WithoutCancel(ctx), t, object) })
	}
}

// remove removes at once: nobody here ends pods.
func remove(ctx context.Context, t *testing.T, object client.Object) {
	t.Helper()
	if err := admin.Delete(ctx, object, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		t.Errorf("remove %T: %v", object, err)
	}
}

func plainPod(name, namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "none"}}},
	}
}

// onNetwork is an annotated pod; node may be "".
func onNetwork(name, namespace, networks, node string) *corev1.Pod {
	pod := plainPod(name, namespace)
	pod.Annotations = map[string]string{v1alpha1.NetworkAnnotation: networks}
	pod.Spec.NodeName = node
	return pod
}

// makeAgent creates the pod of an agent that is ready.
func makeAgent(ctx context.Context, t *testing.T, node string) {
	t.Helper()
	pod := plainPod("ktsn-agent-"+node, system)
	pod.Labels = map[string]string{"app.kubernetes.io/name": "kubernetsn", "app.kubernetes.io/component": "agent"}
	pod.Spec.NodeName = node
	must(t, admin.Create(ctx, pod))
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	must(t, admin.Status().Update(ctx, pod))
}

func newNetwork(name string, vni int32, cidr string) *v1alpha1.TSNNetwork {
	return &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.TSNNetworkSpec{VNI: vni, IPv4: v1alpha1.Range4{CIDR: cidr, NodePrefixLength: 24}},
	}
}

// nodesMade counts, so that each node has an address of its own.
var nodesMade atomic.Int32

func newNode(name string) *corev1.Node {
	number := nodesMade.Add(1)
	address := fmt.Sprintf("10.%d.%d.%d", 64+number>>16, number>>8&255, number&255)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
	}
}

func newNamespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func clientFor(t *testing.T, account *rest.Config) client.Client {
	t.Helper()
	created, err := client.New(account, client.Options{Scheme: scheme})
	must(t, err)
	return created
}

func mergePatch(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }

func mustPatch(ctx context.Context, t testing.TB, object client.Object, text string) {
	t.Helper()
	must(t, admin.Patch(ctx, object, mergePatch(text)))
}

func mustPatchStatus(ctx context.Context, t testing.TB, object client.Object, text string) {
	t.Helper()
	must(t, admin.Status().Patch(ctx, object, mergePatch(text)))
}

// awaitGone waits until an object is deleted.
func awaitGone(ctx context.Context, t *testing.T, object client.Object) {
	t.Helper()
	eventually(ctx, t, func() error {
		if err := get(ctx, object); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%T %s/%s is still there: %w", object, object.GetNamespace(), object.GetName(), err)
		}
		return nil
	})
}

func get(ctx context.Context, object client.Object) error {
	return admin.Get(ctx, client.ObjectKeyFromObject(object), object)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
