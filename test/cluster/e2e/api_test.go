// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

func intOrString(port int) intstr.IntOrString { return intstr.FromInt32(int32(port)) }

func TestExecAndLogsWorkOnEachNode(t *testing.T) {
	ctx := needCluster(t)
	namespace := newNamespace(ctx, t, restricted)
	for _, node := range under.Nodes {
		pod := start(ctx, t, namespace, agnhost("on-"+node.Name, node.Name))[0]
		stdout, stderr, err := run(ctx, pod, "agnhost", "/agnhost", "--version")
		if err != nil || !strings.Contains(stdout, "version") {
			t.Errorf("%s: exec: %v, %q, %q", node.Name, err, stdout, stderr)
		}
		text, err := logs(ctx, pod, "agnhost")
		if err != nil || !strings.Contains(text, "Started HTTP server") {
			t.Errorf("%s: logs: %v, %q", node.Name, err, text)
		}
	}
}

func TestAServiceAccountMayNothingUntilItIsGivenARole(t *testing.T) {
	ctx := needCluster(t)
	namespace := newNamespace(ctx, t, restricted)
	nobody := rest.CopyConfig(config)
	nobody.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":default"}
	as, err := kubernetes.NewForConfig(nobody)
	if err != nil {
		t.Fatal(err)
	}
	_, err = as.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("list secrets: %v", err)
	}
}

// kubeletOf returns a client with the rights of a node's kubelet.
func kubeletOf(t *testing.T, node string) kubernetes.Interface {
	t.Helper()
	kubeconfig, err := clientcmd.BuildConfigFromFlags("", filepath.Join(under.Root(node), "etc", "kubernetes", "kubelet.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	kubelet, err := kubernetes.NewForConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return kubelet
}

func TestAKubeletMayWhatItsNodeNeeds(t *testing.T) {
	ctx := needTwoNodes(t)
	namespace := newNamespace(ctx, t, restricted)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, StringData: map[string]string{"key": "value"}}
	if _, err := client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := agnhost("owner", under.Nodes[0].Name)
	pod.Spec.Volumes = []corev1.Volume{{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "secret", MountPath: "/secret", ReadOnly: true}}
	start(ctx, t, namespace, pod)

	kubelet, other := kubeletOf(t, under.Nodes[0].Name), kubeletOf(t, under.Nodes[1].Name)
	t.Run("read a secret of its own pods", func(t *testing.T) {
		if _, err := kubelet.CoreV1().Secrets(namespace).Get(ctx, "secret", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("not one of another node's", func(t *testing.T) {
		_, err := other.CoreV1().Secrets(namespace).Get(ctx, "secret", metav1.GetOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("nor change another node", func(t *testing.T) {
		patch := []byte(`{"metadata":{"labels":{"e2e":"was-here"}}}`)
		_, err := other.CoreV1().Nodes().Patch(ctx, under.Nodes[0].Name, "application/merge-patch+json", patch, metav1.PatchOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
	})
}

func TestPodSecurityIsEnforced(t *testing.T) {
	ctx := needCluster(t)
	root := agnhost("root", "")
	root.Spec.SecurityContext, root.Spec.Containers[0].SecurityContext = nil, nil
	host := agnhost("host", "")
	host.Spec.HostNetwork = true
	for name, test := range map[string]struct {
		level   string
		pod     *corev1.Pod
		allowed bool
	}{
		"an ordinary pod where nothing is said":        {"", root, true},
		"the host's network not where nothing is said": {"", host, false},
		"an ordinary pod not where it is restricted":   {restricted, root, false},
		"a careful pod where it is restricted":         {restricted, agnhost("careful", ""), true},
		"the host's network where all is allowed":      {privileged, host, true},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := newNamespace(ctx, t, test.level)
			_, err := client.CoreV1().Pods(namespace).Create(ctx, test.pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if test.allowed && err != nil {
				t.Error(err)
			}
			if !test.allowed && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity")) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestQuotasAndLimitsAreAdmissionsBusiness(t *testing.T) {
	ctx := needCluster(t)
	namespace := newNamespace(ctx, t, restricted)
	limits := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{"memory": resource.MustParse("16Mi")},
		}}},
	}
	if _, err := client.CoreV1().LimitRanges(namespace).Create(ctx, limits, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "quota"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1")}},
	}
	if _, err := client.CoreV1().ResourceQuotas(namespace).Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForQuota(ctx, t, namespace)
	first := start(ctx, t, namespace, agnhost("first", ""))[0]
	if got := first.Spec.Containers[0].Resources.Requests.Memory().String(); got != "16Mi" {
		t.Errorf("the default request is %s", got)
	}
	_, err := client.CoreV1().Pods(namespace).Create(ctx, agnhost("second", ""), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "quota") {
		t.Errorf("got %v", err)
	}
}

// waitForQuota waits until the controller has counted for the first time.
func waitForQuota(ctx context.Context, t *testing.T, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := kube.Wait(ctx, func(ctx context.Context) error {
		quota, err := client.CoreV1().ResourceQuotas(namespace).Get(ctx, "quota", metav1.GetOptions{})
		if err == nil && len(quota.Status.Hard) == 0 {
			err = apierrors.NewServiceUnavailable("the quota is not counted yet")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
